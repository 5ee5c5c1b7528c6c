"""Who may do what: every operation, with every role, in the caller's own firm and in others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client

from jobs.api.urls import urlpatterns
from jobs.models import (
    BulkRun,
    CircuitBreaker,
    ConcurrencyLock,
    DeadLetterQueue,
    JobQueue,
    NotificationEndpoint,
    Pause,
    RateLimit,
    Schedule,
    Worker,
)
from tenants.models import Role
from tenants.scope import all_firms
from tests.factories.tenants import MembershipFactory, UserFactory
from tests.jobs.api.conftest import Api, FirmRows, audit_log, key_for, problem

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01", "T-01", "T-03")]

REASON = {"reason": "because"}
# The models whose rows an operation may change.
CHANGED: list[type[Any]] = [
    *(JobQueue, DeadLetterQueue, ConcurrencyLock, Pause, RateLimit, CircuitBreaker, Schedule),
    *(BulkRun, NotificationEndpoint),
]


@dataclass(frozen=True)
class Operation:
    """One operation, and the role that it needs in the caller's own firm."""

    route: str
    needs: Role
    body: dict[str, Any] | None = None
    names_firm: bool = False
    # The field of `FirmRows` with the row that the route names.
    row: str = ""
    # The status of the answer if the caller may do it.
    status: int = 200
    method: str = "post"

    @property
    def name(self) -> str:
        return f"{'get' if self.body is None else self.method} {self.route}"

    def call(self, api: Api, rows: FirmRows) -> Any:
        path = self.route
        if self.row:
            path = re.sub(r"<uuid:\w+>", str(getattr(rows, self.row).pk), path)
        if self.body is None:
            return api.get(path)
        named = {"firm": rows.firm.slug} if self.names_firm else {}
        send = api.patch if self.method == "patch" else api.post
        return send(path, {**self.body, **named})


OPERATIONS = [
    Operation("queues/", Role.VIEWER),
    Operation("jobs/", Role.VIEWER),
    Operation("jobs/", Role.DEVELOPER, {"job_type": "noop"}, names_firm=True, status=201),
    Operation(
        "jobs/chain/",
        Role.DEVELOPER,
        {"jobs": [{"job_type": "noop"}]},
        names_firm=True,
        status=201,
    ),
    Operation(
        "jobs/bulk/",
        Role.OPERATOR,
        {"action": "cancel", "filter": {}, "dry_run": False},
        names_firm=True,
        status=202,
    ),
    Operation("jobs/<uuid:job_id>/", Role.VIEWER, row="dead"),
    Operation("jobs/<uuid:job_id>/", Role.OPERATOR, {"priority": 0}, row="waiting", method="patch"),
    Operation("jobs/<uuid:job_id>/retry/", Role.OPERATOR, REASON, row="dead"),
    Operation("jobs/<uuid:job_id>/cancel/", Role.OPERATOR, REASON, row="waiting"),
    Operation("dlq/", Role.VIEWER),
    Operation("dlq/groups/", Role.VIEWER),
    Operation(
        "dlq/bulk/",
        Role.OPERATOR,
        {"action": "discard", "filter": {}, "reason": "because", "dry_run": False},
        names_firm=True,
        status=202,
    ),
    Operation("dlq/<uuid:pk>/", Role.VIEWER, row="dead_letter"),
    Operation("dlq/<uuid:pk>/rehearse/", Role.DEVELOPER, {}, row="dead_letter"),
    Operation("dlq/<uuid:pk>/reprocess/", Role.OPERATOR, {"note": "again"}, row="dead_letter"),
    Operation("dlq/<uuid:pk>/discard/", Role.OPERATOR, REASON, row="dead_letter"),
    Operation("dlq/<uuid:pk>/escalate/", Role.OPERATOR, REASON, row="dead_letter"),
    Operation("batches/", Role.VIEWER),
    Operation("batches/<uuid:pk>/", Role.VIEWER, row="batch"),
    Operation("bulk-runs/", Role.VIEWER),
    Operation("bulk-runs/<uuid:pk>/", Role.VIEWER, row="bulk_run"),
    Operation("bulk-runs/<uuid:pk>/stop/", Role.OPERATOR, REASON, row="bulk_run"),
    Operation("workers/", Role.VIEWER),
    Operation("locks/", Role.VIEWER),
    Operation("locks/<uuid:pk>/release/", Role.ADMIN, REASON, row="lock"),
    Operation("pauses/", Role.VIEWER),
    Operation("pauses/", Role.OPERATOR, REASON, names_firm=True),
    Operation("pauses/<uuid:pk>/resume/", Role.OPERATOR, REASON, row="pause"),
    Operation("rate-limits/", Role.VIEWER),
    Operation(
        "rate-limits/",
        Role.ADMIN,
        {"job_type": "noop", "amount": 1, "per_seconds": 60},
        names_firm=True,
    ),
    Operation("rate-limits/<uuid:pk>/clear/", Role.ADMIN, REASON, row="rate_limit"),
    Operation("breakers/", Role.VIEWER),
    Operation("breakers/", Role.OPERATOR, {"job_type": "sync", **REASON}, names_firm=True),
    Operation("breakers/<uuid:pk>/close/", Role.OPERATOR, REASON, row="breaker"),
    Operation("endpoints/", Role.VIEWER),
    Operation(
        "endpoints/",
        Role.ADMIN,
        {"name": "new", "channel": "email", "target": "ops@example.org"},
        names_firm=True,
        status=201,
    ),
    Operation("endpoints/<uuid:pk>/", Role.VIEWER, row="endpoint"),
    Operation(
        "endpoints/<uuid:pk>/", Role.ADMIN, {"enabled": False}, row="endpoint", method="patch"
    ),
    Operation("endpoints/<uuid:pk>/remove/", Role.ADMIN, REASON, row="endpoint"),
    Operation("endpoints/<uuid:pk>/rotate-key/", Role.ADMIN, REASON, row="endpoint"),
    Operation("endpoints/<uuid:pk>/signing-key/", Role.ADMIN, row="endpoint"),
    Operation("endpoints/<uuid:pk>/test/", Role.OPERATOR, REASON, row="endpoint"),
    Operation("deliveries/", Role.VIEWER),
    Operation("audit/", Role.ADMIN),
    Operation("schedules/", Role.VIEWER),
    Operation("schedules/<uuid:pk>/", Role.VIEWER, row="schedule"),
    Operation("schedules/<uuid:pk>/runs/", Role.VIEWER, row="schedule"),
    Operation("schedules/<uuid:pk>/run/", Role.OPERATOR, REASON, row="schedule"),
    Operation("schedules/<uuid:pk>/pause/", Role.OPERATOR, REASON, row="schedule"),
    Operation("schedules/<uuid:pk>/resume/", Role.OPERATOR, REASON, row="paused_schedule"),
]
LISTS = [
    *("queues/", "jobs/", "dlq/", "locks/", "pauses/", "rate-limits/", "breakers/", "schedules/"),
    *("endpoints/", "deliveries/", "batches/"),
]
OF_PLATFORM_STAFF = {
    f"post workers/<uuid:pk>/{name}/" for name in ("quiet", "resume", "drain", "stop")
}
EACH = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)


def everything() -> list[Any]:
    """Return all rows that an operation may change."""
    with all_firms("test"):
        return [list(model.objects.order_by("pk").values()) for model in CHANGED]


def test_the_table_above_names_every_operation() -> None:
    answered = {
        f"{method} {route.pattern}"
        for route in urlpatterns
        for method in ("get", "post", "patch")
        if method in route.callback.actions
    }
    assert answered == {item.name for item in OPERATIONS} | OF_PLATFORM_STAFF


@EACH
@pytest.mark.parametrize("role", list(Role))
def test_a_role_may_do_what_it_includes_in_its_own_firm(
    operation: Operation, role: Role, acme: FirmRows, globex: FirmRows, worker: Worker
) -> None:
    before = everything()
    answer = operation.call(Api(key_for(acme.firm, role)), acme)
    if role.includes(operation.needs):
        assert answer.status_code == operation.status, answer.content
    else:
        problem(answer, 403)
        assert everything() == before
        assert audit_log() == []
    assert globex.canary not in answer.content.decode()


@EACH
def test_nobody_gets_in_without_a_key_or_session(operation: Operation, acme: FirmRows) -> None:
    answer = operation.call(Api(), acme)
    assert problem(answer, 401)["code"] == "not_authenticated"
    assert answer["WWW-Authenticate"] == 'Bearer realm="mailroom"'
    assert acme.canary not in answer.content.decode()


@EACH
def test_platform_staff_may_do_everything(
    operation: Operation, staff: Api, globex: FirmRows
) -> None:
    assert operation.call(staff, globex).status_code == operation.status


@EACH
def test_somebody_without_a_firm_is_refused(operation: Operation, acme: FirmRows) -> None:
    client = Client()
    client.force_login(UserFactory(username="nobody", is_staff=True))
    answer = operation.call(Api(client=client), acme)
    assert "not a member" in problem(answer, 403)["detail"]


@pytest.mark.parametrize("path", ["jobs/", "queues/", "jobs/00000000-0000-4000-8000-000000000000/"])
def test_no_cache_on_the_way_keeps_an_answer(viewer: Api, acme: FirmRows, path: str) -> None:
    assert viewer.get(path).headers["Cache-Control"] == "private, no-store"


def test_figures_are_of_ones_own_firm_alone(viewer: Api, acme: FirmRows, globex: FirmRows) -> None:
    figures = viewer.get("queues/").json()
    assert figures["totals"]["completed"] == acme.firm.pk * 1000 + 7
    assert figures["totals"]["pending"] == 1
    assert figures["dead_letters_open"] == 1


def test_of_a_workers_jobs_only_ones_own_are_named(
    viewer: Api, staff: Api, acme: FirmRows, globex: FirmRows, worker: Worker
) -> None:
    ours, theirs, _ended = worker.running
    (mine,) = viewer.results("workers/")
    assert mine["running"] == [ours]
    (all_of_it,) = staff.results("workers/")
    assert all_of_it["running"] == [ours, theirs]


def test_a_member_of_two_firms_sees_both_and_acts_by_the_role_in_each(
    acme: FirmRows, globex: FirmRows
) -> None:
    user = UserFactory(username="both", is_staff=True)
    with all_firms("test"):
        MembershipFactory(firm=acme.firm, user=user, role=Role.VIEWER)
        MembershipFactory(firm=globex.firm, user=user, role=Role.OPERATOR)
    client = Client()
    client.force_login(user)
    api = Api(client=client)
    assert {job["firm"] for job in api.results("jobs/")} == {"acme", "globex"}
    assert {job["firm"] for job in api.results("jobs/", {"firm": "acme"})} == {"acme"}
    problem(api.post(f"jobs/{acme.waiting.pk}/cancel/"), 403)
    assert api.post(f"jobs/{globex.waiting.pk}/cancel/").status_code == 200


@pytest.mark.parametrize("path", LISTS)
def test_a_foreign_firm_and_an_unknown_one_look_alike(
    path: str, viewer: Api, globex: FirmRows
) -> None:
    foreign = problem(viewer.get(path, {"firm": "globex"}), 404)
    unknown = problem(viewer.get(path, {"firm": "nowhere"}), 404)
    del foreign["correlation_id"], unknown["correlation_id"]
    assert foreign == unknown


def test_searching_for_anothers_texts_finds_nothing(viewer: Api, globex: FirmRows) -> None:
    for query in (
        {"search": globex.canary},
        {"search": str(globex.dead.pk)},
        {"correlation_id": globex.canary},
        {"error": "canary-globex"},
    ):
        assert viewer.results("jobs/", query) == []


def test_a_viewer_sees_the_form_of_a_payload_and_not_its_values(
    viewer: Api, operator: Api, acme: FirmRows
) -> None:
    path = f"jobs/{acme.dead.pk}/"
    shown = viewer.get(path).json()
    assert shown["payload"].keys() == acme.dead.payload.keys()
    assert set(shown["payload"].values()) == {"••••••"}
    assert acme.canary not in (str(shown["result"]) + str(shown["steps"][0]["result"]))
    assert operator.get(path).json()["payload"] == acme.dead.payload


def test_an_inactive_firm_is_out_of_sight(acme: FirmRows, globex: FirmRows) -> None:
    user = UserFactory(username="both", is_staff=True)
    with all_firms("test"):
        MembershipFactory(firm=acme.firm, user=user, role=Role.ADMIN)
        MembershipFactory(firm=globex.firm, user=user, role=Role.ADMIN)
    type(globex.firm).objects.filter(pk=globex.firm.pk).update(active=False)
    client = Client()
    client.force_login(user)
    assert {job["firm"] for job in Api(client=client).results("jobs/")} == {"acme"}
