"""API keys and sessions: who is let in, with which role, and for how long."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db.models import Model
from django.test import Client
from django.utils import timezone

from jobs.engine.clock import database_now
from tenants.api import keys
from tenants.audit import SERVICE
from tenants.cli import operator
from tenants.models import ApiKey, AuditEntry, Firm, Membership, Role
from tenants.scope import all_firms
from tests.factories.tenants import MembershipFactory, UserFactory
from tests.jobs.api.conftest import Api, FirmRows, key_for, problem

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01")]


def only_key() -> ApiKey:
    with all_firms("test"):
        found: ApiKey = ApiKey.objects.select_related("user", "firm").get()
        return found


def set_columns(row: Model, **columns: Any) -> None:
    with all_firms("test"):
        type(row)._base_manager.filter(pk=row.pk).update(**columns)


def command(*arguments: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command(*arguments, "--json", stdout=out)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


@pytest.fixture
def ann(firm: Firm) -> str:
    """Return the address of an operator of the first firm."""
    key_for(firm, Role.OPERATOR, "ann@acme.example")
    with all_firms("test"):
        ApiKey.objects.all().delete()
    return "ann@acme.example"


def test_a_key_is_shown_once_and_stored_hashed(ann: str, firm: Firm) -> None:
    made = command("create_api_key", "Ann@acme.example", "--firm", "acme", "--role", "viewer")
    assert Api(made["key"]).get("queues/").status_code == 200
    row = only_key()
    stored = json.dumps({field.name: str(getattr(row, field.name)) for field in row._meta.fields})
    assert made["key"] not in stored
    assert made["key"].removeprefix(f"mrk_{made['prefix']}_") not in stored
    assert (row.prefix, row.role, row.expires_at) == (made["prefix"], "viewer", None)


def test_a_user_may_be_named_by_name_or_by_address() -> None:
    UserFactory(username="root", email="root@acme.example", is_staff=True, is_superuser=True)
    for named in ("root", "Root@acme.example"):
        made = command("create_api_key", named, "--firm", "system", "--role", "admin")
        assert made["email"] == "root"


def test_an_empty_name_makes_no_key_although_a_user_has_no_address() -> None:
    UserFactory(username="root", email="", is_staff=True, is_superuser=True)
    with pytest.raises(CommandError, match="there is no user ''"):
        command("create_api_key", "", "--firm", "system", "--role", "viewer")


def test_an_address_that_two_users_have_makes_no_key(firm: Firm) -> None:
    for name in ("ann", "Ann"):
        MembershipFactory(
            user=UserFactory(username=name, email="ann@acme.example"), firm=firm, role=Role.ADMIN
        )
    with pytest.raises(CommandError, match="'Ann', 'ann'") as refused:
        command("create_api_key", "ann@acme.example", "--firm", "acme", "--role", "viewer")
    assert refused.value.returncode == 1
    assert command("create_api_key", "Ann", "--firm", "acme", "--role", "viewer")["email"] == "Ann"


@pytest.mark.req("T-05")
def test_making_and_revoking_a_key_is_written_down(ann: str, firm: Firm) -> None:
    made = command("create_api_key", ann, "--firm", "acme", "--role", "viewer")
    assert command("revoke_api_key", made["prefix"])["revoked"] == 1
    problem(Api(made["key"]).get("queues/"), 401)
    with all_firms("test"):
        entries = AuditEntry.objects.filter(target_id=str(only_key().pk), door="cli")
        acts = list(entries.order_by("id").values_list("act", flat=True))
        made_by = {entry.actor_name for entry in entries}
    assert acts == ["api_key.create", "api_key.revoke"]
    assert made_by == {operator().name}
    with pytest.raises(CommandError) as refused:
        command("revoke_api_key", made["prefix"])
    assert refused.value.returncode == 3


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (["nobody@acme.example", "--firm", "acme", "--role", "viewer"], 3),
        (["ann@acme.example", "--firm", "nowhere", "--role", "viewer"], 3),
        (["ann@acme.example", "--firm", "globex", "--role", "viewer"], 1),
        (["ann@acme.example", "--firm", "acme", "--role", "admin"], 1),
        (["ann@acme.example", "--firm", "acme", "--role", "king"], 1),
        (["ann@acme.example", "--firm", "acme", "--role", "viewer", "--expires-days", "0"], 1),
    ],
)
def test_a_key_beyond_its_user_is_refused(
    arguments: list[str], exit_code: int, ann: str, other_firm: Firm
) -> None:
    with pytest.raises(CommandError) as refused:
        command("create_api_key", *arguments)
    assert refused.value.returncode == exit_code
    with all_firms("test"):
        assert not ApiKey.objects.exists()


@pytest.mark.parametrize("days", ["0", "-1", "3651", "ten", "1.5"])
def test_a_number_of_days_that_no_key_lasts_is_explained_in_a_line(ann: str, days: str) -> None:
    with pytest.raises(CommandError) as refused:
        command(
            "create_api_key", ann, "--firm", "acme", "--role", "viewer", f"--expires-days={days}"
        )
    assert str(refused.value).endswith(f"a number from 1 to 3650, not {days!r}")
    assert len(str(refused.value)) < 100


def test_a_key_ends_after_its_days(ann: str) -> None:
    made = command(
        "create_api_key", ann, "--firm", "acme", "--role", "viewer", "--expires-days", "30"
    )
    row = only_key()
    assert row.expires_at is not None
    assert timedelta(days=29) < row.expires_at - timezone.now() <= timedelta(days=30)
    assert Api(made["key"]).get("queues/").status_code == 200
    set_columns(row, expires_at=timezone.now() - timedelta(seconds=1))
    problem(Api(made["key"]).get("queues/"), 401)


@pytest.mark.parametrize("ahead", [-10, 10])
def test_a_key_lasts_and_is_noted_as_used_by_the_databases_time(
    ann: str, firm: Firm, ahead: int
) -> None:
    with time_machine.travel(timezone.now() + timedelta(minutes=ahead)):
        made = command(
            "create_api_key", ann, "--firm", "acme", "--role", "viewer", "--expires-days", "1"
        )
        left = only_key().expires_at - database_now()
        assert timedelta(hours=23, minutes=59) < left <= timedelta(days=1)
        for minutes in (0.5, 5):
            before = database_now() - timedelta(minutes=minutes)
            set_columns(only_key(), last_used_at=before)
            assert Api(made["key"]).get("queues/").status_code == 200
            assert (only_key().last_used_at > before) == (minutes > 1)


@pytest.mark.parametrize("what", ["user", "firm", "membership", "revoked"])
def test_a_key_is_worth_no_more_than_what_stands_behind_it(what: str, acme: FirmRows) -> None:
    key = key_for(acme.firm, Role.ADMIN)
    row = only_key()
    assert Api(key).get("queues/").status_code == 200
    match what:
        case "user":
            set_columns(row.user, is_active=False)
        case "firm":
            set_columns(row.firm, active=False)
        case "membership":
            with all_firms("test"):
                Membership.objects.all().delete()
        case _:
            set_columns(row, revoked_at=timezone.now())
    answer = Api(key).get("queues/")
    assert problem(answer, 401)["code"] == "api_key_invalid"
    assert answer["WWW-Authenticate"] == 'Bearer realm="mailroom"'


def test_somebody_demoted_does_not_keep_the_old_role(acme: FirmRows) -> None:
    key = key_for(acme.firm, Role.ADMIN)
    with all_firms("test"):
        Membership.objects.update(role=Role.VIEWER)
    problem(Api(key).post(f"jobs/{acme.waiting.pk}/cancel/"), 403)


@pytest.mark.req("T-03")
def test_a_key_opens_one_firm_even_for_staff(acme: FirmRows, globex: FirmRows) -> None:
    root = UserFactory(username="root", platform_staff=True)
    MembershipFactory(firm=acme.firm, user=root, role=Role.VIEWER)
    key, _ = keys.issue(root, acme.firm, Role.VIEWER, lifetime=None, by=SERVICE)
    assert {job["firm"] for job in Api(key).results("jobs/")} == {"acme"}
    problem(Api(key).post(f"jobs/{acme.waiting.pk}/cancel/"), 403)


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer mrk_000000000000_" + "x" * 43,
        "Bearer {key}x",
        "Bearer {swapped}",
        "bearer \xff\xfe",
        "Bearer {key} {key}",
        "Basic YW5uOmFubg==",
        "{key}",
    ],
)
def test_anything_but_the_key_is_refused(header: str, acme: FirmRows) -> None:
    key = key_for(acme.firm, Role.ADMIN)
    swapped = key[:-1] + ("a" if key[-1] != "a" else "b")
    api = Api()
    answer = api.get("queues/", Authorization=header.format(key=key, swapped=swapped))
    problem(answer, 401)


def test_the_last_use_is_kept_to_the_minute(acme: FirmRows) -> None:
    api = Api(key_for(acme.firm, Role.VIEWER))
    assert only_key().last_used_at is None
    api.get("queues/")
    first = only_key().last_used_at
    assert first is not None
    api.get("queues/")
    assert only_key().last_used_at == first
    set_columns(only_key(), last_used_at=first - timedelta(minutes=2))
    api.get("queues/")
    assert only_key().last_used_at != first - timedelta(minutes=2)


@pytest.mark.req("O-03")
def test_the_admin_shows_who_has_a_key(acme: FirmRows, globex: FirmRows) -> None:
    key_for(acme.firm, Role.VIEWER, "ann@acme.example")
    own = only_key()
    key_for(globex.firm, Role.VIEWER, "bob@globex.example")
    client = Client()
    client.force_login(own.user)
    page = client.get("/admin/tenants/apikey/").content.decode()
    assert own.prefix in page
    assert "bob@globex.example" not in page
    assert own.key_hash not in client.get(f"/admin/tenants/apikey/{own.pk}/").content.decode()


class TestSessions:
    """Requests of a browser that is signed in to the admin."""

    @pytest.fixture
    def browser(self, acme: FirmRows) -> Client:
        key_for(acme.firm, Role.OPERATOR, "ann@acme.example")
        client = Client(enforce_csrf_checks=True)
        client.force_login(get_user_model().objects.get(username="ann@acme.example"))
        return client

    def test_reading_needs_the_session_alone(self, browser: Client) -> None:
        assert Api(client=browser).get("jobs/").status_code == 200

    def test_an_act_needs_the_csrf_token_too(self, browser: Client, acme: FirmRows) -> None:
        api = Api(client=browser)
        path = f"jobs/{acme.waiting.pk}/cancel/"
        assert "CSRF" in problem(api.post(path), 403)["detail"]
        token = "0" * 32
        browser.cookies["csrftoken"] = token
        assert api.post(path, **{"X-CSRFToken": token}).status_code == 200

    def test_a_key_needs_no_csrf_token(self, acme: FirmRows) -> None:
        api = Api(key_for(acme.firm, Role.OPERATOR), client=Client(enforce_csrf_checks=True))
        assert api.post(f"jobs/{acme.waiting.pk}/cancel/").status_code == 200

    def test_a_bad_key_is_not_saved_by_a_session(self, browser: Client) -> None:
        problem(Api("mrk_bad", client=browser).get("jobs/"), 401)

    def test_a_user_who_was_deactivated_is_out(self, browser: Client) -> None:
        set_columns(get_user_model().objects.get(username="ann@acme.example"), is_active=False)
        problem(Api(client=browser).get("jobs/"), 401)


@pytest.mark.req("T-01")
def test_platform_staff_have_a_key_to_every_firm_while_they_are_staff(
    acme: FirmRows, globex: FirmRows, system_firm: Firm
) -> None:
    staff = UserFactory(username="root@example.org", platform_staff=True)
    arguments = ("create_api_key", "root@example.org", "--firm", "system", "--role")
    with pytest.raises(CommandError, match="a key for every firm needs the role admin"):
        command(*arguments, "viewer")
    api = Api(command(*arguments, "admin")["key"])
    firms = {row["firm"] for row in api.results("jobs/")}
    assert firms == {"acme", "globex"}
    assert {row["firm"] for row in api.results("jobs/", {"firm": "acme"})} == {"acme"}
    paused = api.post("pauses/", {"everywhere": True, "job_type": "noop", "reason": "a deploy"})
    assert paused.status_code in (200, 201)
    set_columns(staff, is_superuser=False)
    assert api.get("jobs/").status_code == 401


@pytest.mark.req("T-01")
def test_platform_staff_have_a_key_to_one_firm_without_being_its_member(
    acme: FirmRows, globex: FirmRows
) -> None:
    UserFactory(username="root@example.org", platform_staff=True)
    made = command("create_api_key", "root@example.org", "--firm", "acme", "--role", "viewer")
    api = Api(made["key"])
    assert {row["firm"] for row in api.results("jobs/")} == {"acme"}
    assert api.get(f"jobs/{globex.dead.pk}/").status_code == 404
    assert api.post(f"jobs/{acme.dead.pk}/retry/", {}).status_code == 403
