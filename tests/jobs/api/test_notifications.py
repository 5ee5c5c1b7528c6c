"""Notification endpoints and deliveries over REST."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.models import Delivery, JobQueue, NotificationEndpoint
from jobs.operations.endpoints import create_endpoint, signing_key
from tenants.models import Role
from tenants.scope import all_firms
from tests.jobs.api.conftest import Api, FirmRows, audit_log, fields, key_for, problem

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01", "U-04")]

HOOK = {
    "name": "On call",
    "channel": "webhook",
    "target": "https://hooks.example/very/private?key=abc",
    "events": ["alert.new_failure"],
}


@pytest.fixture
def admin(acme: FirmRows) -> Api:
    """Return an admin of the first firm."""
    return Api(key_for(acme.firm, Role.ADMIN))


@pytest.mark.req("T-05")
def test_an_endpoint_is_created_changed_and_removed(admin: Api, acme: FirmRows) -> None:
    answer = admin.post("endpoints/", HOOK)
    shown = answer.json()
    assert answer.status_code == 201
    assert shown == {
        "id": shown["id"],
        "firm": "acme",
        "everywhere": False,
        "name": "On call",
        "channel": "webhook",
        "recipient": "https://hooks.example",
        "events": ["alert.new_failure"],
        "enabled": True,
        "created_at": shown["created_at"],
    }
    path = f"endpoints/{shown['id']}/"
    changed = admin.patch(path, {"enabled": False, "events": ["alert.unreviewed"]}).json()
    assert changed == {**shown, "enabled": False, "events": ["alert.unreviewed"]}
    assert admin.get(path).json() == changed
    assert problem(admin.post(f"{path}test/", {}), 409)["code"] == "wrong_state"
    assert admin.post(f"{path}remove/", {"reason": "gone"}).json() == changed
    problem(admin.get(path), 404)
    entries = audit_log()
    assert [entry.act for entry in entries] == [
        "endpoint.create", "endpoint.change", "endpoint.remove",
    ]  # fmt: skip
    assert "private" not in str([(entry.before, entry.after) for entry in entries])


@pytest.mark.req("T-05")
def test_the_signing_key_is_shown_to_admins_and_that_is_audited(admin: Api) -> None:
    path = f"endpoints/{admin.post('endpoints/', HOOK).json()['id']}/"
    answer = admin.get(f"{path}signing-key/")
    first = answer.json()["signing_key"]
    assert first.startswith("whsec_")
    assert answer["Cache-Control"] == "private, no-store"
    rotated = admin.post(f"{path}rotate-key/", {"reason": "leaked"})
    assert "whsec_" not in rotated.content.decode()
    second = admin.get(f"{path}signing-key/").json()["signing_key"]
    assert first != second
    with all_firms("test"):
        row = NotificationEndpoint.objects.get(name="On call")
    assert signing_key(row) == second
    assert second.removeprefix("whsec_") not in row.signing_key
    assert [entry.act for entry in audit_log()][1:] == [
        "endpoint.show_key", "endpoint.rotate_key", "endpoint.show_key",
    ]  # fmt: skip


def test_an_endpoint_for_every_firm_is_for_platform_staff(
    admin: Api, staff: Api, system_firm: Any
) -> None:
    problem(admin.post("endpoints/", {**HOOK, "everywhere": True}), 403)
    shown = staff.post("endpoints/", {**HOOK, "everywhere": True}).json()
    assert (shown["firm"], shown["everywhere"]) == (None, True)
    problem(admin.get(f"endpoints/{shown['id']}/"), 404)
    assert shown["id"] not in str(admin.results("endpoints/"))


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"target": "ftp://a.example"}, {"target": "no_url"}),
        ({"target": "https://user:pass@a.example"}, {"target": "no_url"}),
        ({"channel": "email"}, {"target": "no_address"}),
        ({"channel": "pigeon"}, {"channel": "invalid_choice"}),
        ({"events": ["alert.lunch"]}, {"events": "invalid_choice"}),
        ({"name": "two\nlines"}, {"name": "wrong_length"}),
        ({"name": "taken"}, {"name": "taken"}),
        ({"secret": "x"}, {"secret": "unknown_field"}),
    ],
)
def test_what_is_wrong_is_named(
    admin: Api, acme: FirmRows, change: dict[str, Any], wrong: dict[str, str]
) -> None:
    create_endpoint("taken", "email", "a@example.org", firm=acme.firm)
    found = fields(admin.post("endpoints/", {**HOOK, **change}))
    assert {name.partition(".")[0]: code for name, code in found.items()} == wrong


def test_without_an_encryption_key_there_are_no_webhooks(admin: Api, settings: Any) -> None:
    settings.FIELD_ENCRYPTION_KEYS = ()
    assert fields(admin.post("endpoints/", HOOK)) == {"channel": "no_encryption_key"}


def test_a_test_is_a_job_of_the_firm(admin: Api, acme: FirmRows) -> None:
    shown = admin.post("endpoints/", HOOK).json()
    assert admin.post(f"endpoints/{shown['id']}/test/", {}).status_code == 200
    with all_firms("test"):
        job = JobQueue.objects.get(job_type="webhook_send")
    assert (job.firm_id, job.payload["event"]) == (acme.firm.pk, "test")


@pytest.mark.req("T-03")
def test_deliveries_are_listed_with_filters(viewer: Api, acme: FirmRows, globex: FirmRows) -> None:
    with all_firms("test"):
        mine = Delivery.objects.get(firm=acme.firm)
        Delivery.objects.filter(pk=mine.pk).update(status="failed", status_code=503)
    (row,) = viewer.results("deliveries/")
    assert (row["id"], row["status"], row["status_code"]) == (str(mine.pk), "failed", 503)
    assert (row["endpoint_id"], row["firm"]) == (str(acme.endpoint.pk), "acme")
    for query in (
        {"status": "failed"},
        {"channel": "webhook"},
        {"event": acme.canary},
        {"endpoint": str(acme.endpoint.pk)},
        {"job_id": str(mine.job_id)},
    ):
        assert len(viewer.results("deliveries/", query)) == 1, query
    for query in (
        {"status": "delivered"},
        {"channel": "email"},
        {"endpoint": str(globex.endpoint.pk)},
    ):
        assert viewer.results("deliveries/", query) == [], query
