"""The deletion of a firm or of a user deletes everything of theirs, and nothing of others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import connection, transaction

from jobs.engine import counters, owner
from jobs.engine.counters import Counted, count
from jobs.engine.lease import JobLease
from jobs.engine.rollups import Measured, Rollups
from jobs.engine.transactions import in_transaction
from jobs.errors import (
    ArgumentsInvalid,
    Cancel,
    LeaseLost,
    PayloadInvalid,
    ReasonMissing,
    ScheduleInvalid,
    WrongState,
)
from jobs.models import Batch, DeadLetterQueue, FanIn, JobQueue
from jobs.models.base import FIRST_ID
from jobs.operations import deletion_steps
from jobs.operations.deletion import delete_firm, delete_user
from jobs.operations.deletion_steps import Step
from jobs.operations.edit import edit
from jobs.operations.enqueue import enqueue as enqueue_by_hand
from jobs.operations.enqueue import enqueue_chain as chain_by_hand
from jobs.operations.schedules import create_schedule
from jobs.queue import EnqueueSpec, batch_progress, enqueue, enqueue_batch, enqueue_chain
from jobs.testing import drain, run_job
from jobs.testing.run import run_maintenance
from tenants.errors import DeletionRefused
from tenants.models import AuditEntry, Firm, FirmOwned, Membership
from tenants.ownership import owned_tables
from tenants.scope import all_firms, firm_scope
from tests.factories.jobs import JobQueueFactory
from tests.factories.tenants import MembershipFactory, UserFactory
from tests.queue_kit import table_rows, take_one
from tests.support.databases import postgresql_only
from tests.support.waiting import wait_until
from tests.tenants.canaries import fill

WAITING = (
    "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("T-04")]


@pytest.fixture(autouse=True)
def no_owner_is_remembered() -> None:
    owner._seen.clear()


def rows_of(firm_id: int) -> dict[str, int]:
    """Return how many rows of the firm each table has."""
    owned = [model for model in apps.get_models() if issubclass(model, FirmOwned)]
    with all_firms("test"):
        counts = {
            one._meta.label: one._base_manager.filter(firm_id=firm_id).count() for one in owned
        }
    return {label: count for label, count in counts.items() if count}


def letters_of_all() -> list[DeadLetterQueue]:
    return list(DeadLetterQueue.objects.all())


def acts() -> list[tuple[str, str]]:
    with all_firms("test"):
        system = Firm.objects.system()
        entries = AuditEntry.objects.filter(firm=system).order_by("id")
        return list(entries.values_list("act", "target_id"))


def test_everything_of_a_firm_goes_and_nothing_of_another(
    firm: Firm, other_firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One step deletes everything, however slow the machine is.
    monkeypatch.setattr("jobs.job_handlers.BULK_SECONDS", 600.0)
    fill(firm)
    fill(other_firm)
    run_maintenance()
    theirs = rows_of(other_firm.pk)
    assert len(rows_of(firm.pk)) > 15
    own_log = rows_of(firm.pk)["tenants.AuditEntry"]

    job = delete_firm(firm, "the contract ended")
    firm.refresh_from_db()
    assert not firm.active
    assert run_job(job).status == "completed"

    assert not Firm.objects.filter(pk=firm.pk).exists()
    assert rows_of(firm.pk) == {"tenants.AuditEntry": own_log}
    # The maintenance of workers may have added rows to the other firm's.
    now = rows_of(other_firm.pk)
    assert {label: min(count, now.get(label, 0)) for label, count in theirs.items()} == theirs
    with all_firms("test"):
        begun = AuditEntry.objects.get(act="firm.delete")
    assert begun.before == {"name": firm.name, "slug": firm.slug}
    assert begun.reason == "the contract ended"
    assert acts() == [("firm.delete", str(firm.pk)), ("firm.deleted", str(firm.pk))]


def test_an_attempt_looks_for_jobs_in_flight_once(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.job_handlers.BULK_SECONDS", 600.0)
    asked: list[int] = []
    stop = deletion_steps.stop_jobs_of_firm
    monkeypatch.setattr(
        deletion_steps, "stop_jobs_of_firm", lambda one: (asked.append(one), stop(one))
    )
    fill(firm)
    job = delete_firm(firm, "the contract ended")
    assert run_job(job).status == "completed"
    assert rows_of(firm.pk).keys() == {"tenants.AuditEntry"}
    assert asked == [firm.pk]


def test_what_a_worker_measured_before_is_not_stored_after(firm: Firm, other_firm: Firm) -> None:
    rollups = Rollups()
    for one in (firm, other_firm):
        rollups.add([Measured(one.pk, "sync", "noop", [1.5], [0.25], failed=True)])
    assert run_job(delete_firm(firm, "the contract ended")).status == "completed"
    assert rollups.store()
    assert rows_of(firm.pk) == {}
    assert {"jobs.LatencyBucket", "jobs.FailingType"} <= set(rows_of(other_firm.pk))


@postgresql_only
def test_counters_that_a_worker_folds_meanwhile_go_too(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However busy the machine is.
    monkeypatch.setattr(deletion_steps, "LOCK_TIMEOUT_MILLISECONDS", 20_000)
    in_transaction(lambda: count([Counted(firm.pk, "sync", "completed")]))
    job = delete_firm(firm, "the contract ended")
    held = take_one()
    assert held.job_id == job.pk
    deleter = JobLease(held.job_id, held.firm_id, held.lease_token)

    def step() -> Step:
        with closing(connection):
            return deletion_steps.firm_step(firm.pk, deleter)

    with ThreadPoolExecutor(1) as other:

        def fold() -> Future[Step]:
            assert counters._fold() == 1
            deleting = other.submit(step)
            wait_until(lambda: table_rows(WAITING), "the deletion to wait for the fold")
            return deleting

        in_transaction(fold).result(timeout=20)
    while not step().is_over:
        pass
    assert rows_of(firm.pk) == {}


@pytest.mark.req("J-01")
def test_a_deletion_that_had_done_all_before_its_attempt_was_lost_is_over(firm: Firm) -> None:
    delete_firm(firm, "closed")
    held = take_one()
    deleter = JobLease(held.job_id, held.firm_id, held.lease_token)
    while not deletion_steps.firm_step(firm.pk, deleter).is_over:
        pass
    assert deletion_steps.firm_step(firm.pk, deleter) == Step(is_over=True)


def test_a_users_jobs_go_with_the_user(firm: Firm, other_firm: Firm) -> None:
    user, other = UserFactory(username="a@x.example"), UserFactory(username="b@x.example")
    mine = [JobQueueFactory(firm=one, user=user, status="completed") for one in (firm, other_firm)]
    kept = JobQueueFactory(firm=firm, user=other)
    with all_firms("test"):
        DeadLetterQueue.objects.create(
            firm=firm, original_job=mine[0], job_series=1, reason="fatal"
        )

    delete_user(user, "asked for it")
    user.refresh_from_db()
    assert not user.is_active
    drain()

    assert not get_user_model().objects.filter(pk=user.pk).exists()
    with all_firms("test"):
        left = set(
            JobQueue.objects.filter(firm__in=[firm, other_firm]).values_list("pk", flat=True)
        )
        assert not DeadLetterQueue.objects.exists()
    assert left == {kept.pk}
    assert acts() == [("user.delete", str(user.pk)), ("user.deleted", str(user.pk))]


@pytest.mark.req("J-01")
def test_what_would_follow_on_a_users_behalf_goes_with_the_user(firm: Firm) -> None:
    user, other = UserFactory(username="a@x.example"), UserFactory(username="b@x.example")

    def spec(of: Any = None) -> EnqueueSpec:
        return EnqueueSpec("noop", {}, user=of, lock_key=of and of.username)

    made = enqueue_batch([spec()], on_settled=spec(user), on_completed=spec(other), firm=firm)
    enqueue_chain([spec(), spec(user), spec(other)], firm=firm)
    enqueue_chain([spec(), spec(other), spec(user), spec(other)], firm=firm)

    delete_user(user, "asked for it")
    drain()

    with all_firms("test"):
        ran = JobQueue.objects.filter(firm=firm)
        assert not DeadLetterQueue.objects.exists()
        # The callback of the batch and the second job of the second chain have no lock key.
        assert sorted(one.lock_key or "" for one in ran) == [
            "",
            "",
            "",
            *["b@x.example"] * 2,
        ]
        assert {one.status for one in ran} == {"completed"}
        kept = [str(row) for model in (Batch, FanIn) for row in model.objects.values()]
    assert batch_progress(made.batch_id).state == "completed"
    assert not [row for row in kept if "a@x.example" in row]


def test_jobs_in_flight_are_asked_to_end_and_waited_for(firm: Firm) -> None:
    user = UserFactory(username="a@x.example")
    running = JobQueueFactory(firm=firm, user=user, status="processing", attempts=1)
    for begin, subject in ((delete_user, user), (delete_firm, firm)):
        begin(subject, "test")
        ran = drain(max_jobs=1).ran
        assert [one.end for one in ran] == ["snoozed"]
        with all_firms("test"):
            assert JobQueue.objects.get(pk=running.pk).cancel_requested_at is not None
    assert Firm.objects.filter(pk=firm.pk).exists()
    assert get_user_model().objects.filter(pk=user.pk).exists()


def test_a_firm_that_is_activated_again_keeps_what_it_has(firm: Firm) -> None:
    kept = JobQueueFactory(firm=firm, status="completed")
    job = delete_firm(firm, "test")
    Firm.objects.filter(pk=firm.pk).update(active=True)
    ended = run_job(job)
    assert ended.status == "canceled"
    assert "activated again" in ended.last_error
    with all_firms("test"):
        assert JobQueue.objects.filter(pk=kept.pk).exists()
    assert Firm.objects.filter(pk=firm.pk).exists()

    assert run_job(delete_firm(firm, "test")).status == "completed"
    assert not Firm.objects.filter(pk=firm.pk).exists()


def test_a_user_who_may_sign_in_again_keeps_what_they_have(firm: Firm) -> None:
    user = UserFactory(username="a@x.example")
    kept = JobQueueFactory(firm=firm, user=user, status="completed")
    job = delete_user(user, "test")
    users = get_user_model().objects.filter(pk=user.pk)
    users.update(is_active=True)
    ended = run_job(job)
    assert ended.status == "canceled"
    assert "sign in again" in ended.last_error
    # It also ends the deletion if it happens after the last chunk.
    again = delete_user(user, "test")
    users.update(is_active=True)
    with pytest.raises(Cancel):
        deletion_steps.end_user(str(user.pk), JobLease(again.pk, again.firm_id, again.lease_token))
    with all_firms("test"):
        assert JobQueue.objects.filter(pk=kept.pk).exists()
    assert users.exists()


def test_a_worker_that_lost_its_lease_deletes_nothing(firm: Firm) -> None:
    JobQueueFactory(firm=firm, status="completed")
    job = delete_firm(firm, "test")
    stale = JobLease(job.pk, job.firm_id, 12345)
    before = rows_of(firm.pk)
    for step in (
        lambda: deletion_steps.firm_step(firm.pk, stale),
        lambda: deletion_steps.user_step("1", FIRST_ID, stale),
        lambda: deletion_steps.end_user("1", stale),
    ):
        with pytest.raises(LeaseLost):
            step()
    assert rows_of(firm.pk) == before


@pytest.mark.parametrize(
    ("job_type", "more"),
    [
        ("delete_firm", {}),
        # The job is refused before anybody looks for the export.
        ("delete_firm", {"export_job_id": "00000000-0000-4000-8000-000000000000"}),
        ("delete_user", {}),
    ],
)
def test_a_job_of_another_firm_than_the_system_firm_deletes_nothing(
    firm: Firm, other_firm: Firm, job_type: str, more: dict[str, str]
) -> None:
    # A firm's developer may enqueue such a job over REST or in the admin.
    user = UserFactory(is_active=False, member_of=other_firm)
    kept = JobQueueFactory(firm=other_firm, user=user, status="completed")
    Firm.objects.filter(pk=other_firm.pk).update(active=False)
    named = {"delete_firm": {"firm_id": other_firm.pk}, "delete_user": {"user_id": str(user.pk)}}
    ended = run_job(enqueue(job_type, {**named[job_type], **more}, firm=firm).job)
    assert ended.status == "dlq"
    assert "only a job of the system firm" in ended.last_error
    with all_firms("test"):
        assert JobQueue.objects.filter(pk=kept.pk).exists()
    assert Firm.objects.filter(pk=other_firm.pk).exists()
    assert get_user_model().objects.filter(pk=user.pk).exists()


@pytest.mark.parametrize("job_type", ["delete_firm", "delete_user"])
def test_nobody_enqueues_schedules_or_edits_a_deletion_by_hand(
    firm: Firm, other_firm: Firm, job_type: str
) -> None:
    system, user = Firm.objects.system(), UserFactory(member_of=other_firm)
    begin, subject = {"delete_firm": (delete_firm, firm), "delete_user": (delete_user, user)}[
        job_type
    ]
    begun = begin(subject, "test").pk
    named = {"delete_firm": {"firm_id": other_firm.pk}, "delete_user": {"user_id": "1"}}[job_type]
    refused: list[Callable[[], object]] = [
        lambda: enqueue_by_hand(job_type, named, firm=system),
        lambda: chain_by_hand([EnqueueSpec("noop"), EnqueueSpec(job_type, named)], firm=system),
        lambda: create_schedule("x", job_type, interval_seconds=60, payload=named, firm=system),
        lambda: edit(begun, payload=named),
    ]
    for attempt in refused:
        with all_firms("test"), pytest.raises((PayloadInvalid, ScheduleInvalid)) as error:
            attempt()
        assert "start it in the admin or with manage.py" in str(error.value)
    with all_firms("test"):
        assert list(JobQueue.objects.values_list("pk", flat=True)) == [begun]


def test_what_cannot_be_deleted_is_refused_by_name(firm: Firm) -> None:
    user = UserFactory(username="a@x.example")
    with pytest.raises(ReasonMissing):
        delete_firm(firm, " ")
    with pytest.raises(WrongState, match="system firm"):
        delete_firm(Firm.objects.system(), "test")
    with pytest.raises(WrongState, match="own account"):
        delete_user(user, "test", by=user)
    # Django cannot see all rows of the firm in these scopes, so some could stay behind.
    for scope in (nullcontext(), firm_scope(firm)):
        with scope, pytest.raises(DeletionRefused, match=r"manage\.py delete_firm"):
            firm.delete()
    assert acts() == []


def test_nothing_is_enqueued_for_a_firm_that_does_not_exist(firm: Firm) -> None:
    gone = Firm.objects.create(name="Gone", slug="gone")
    gone_id = gone.pk
    with all_firms("test"):
        gone.delete()
    for unknown in (gone_id, -1, Firm(name="New")):
        with pytest.raises(ArgumentsInvalid, match="firm: no firm has the id"):
            enqueue("noop", firm=unknown)
        with pytest.raises(ArgumentsInvalid, match="firm: no firm has the id"):
            create_schedule("Daily", "noop", interval_seconds=60, firm=unknown)
    with all_firms("test"):
        assert not JobQueue.objects.exists()


@pytest.mark.req("A-01")
def test_the_projects_own_code_deletes_a_user_outside_any_scope(firm: Firm) -> None:
    user = UserFactory(username="a@x.example")
    MembershipFactory(firm=firm, user=user, role="admin")
    job = enqueue("noop", firm=firm, user=user).job_id
    user.delete()
    with all_firms("test"):
        assert not Membership.objects.exists()
    drain()
    with all_firms("test"):
        assert not JobQueue.objects.filter(pk=job).exists()


def test_a_deletion_is_begun_once(firm: Firm) -> None:
    first, second = delete_firm(firm, "one"), delete_firm(firm, "two")
    assert first.pk == second.pk
    assert acts() == [("firm.delete", str(firm.pk))]


@pytest.mark.req("J-11")
def test_a_job_whose_firm_or_user_is_gone_is_dead_lettered_before_its_handler(
    firm: Firm, other_firm: Firm
) -> None:
    user = UserFactory(username="a@x.example")
    of_user = enqueue("noop", firm=firm, user=user).job_id
    of_firm = enqueue("noop", firm=other_firm).job_id
    user_id, firm_id = user.pk, other_firm.pk
    with all_firms("test"):
        # Django's own deletion of a user would delete the jobs, too.
        get_user_model()._base_manager.filter(pk=user_id)._raw_delete("default")
        other_firm.delete()
    drain()
    with all_firms("test"):
        letters = {one.original_job_id: (one.reason, one.error) for one in letters_of_all()}
    assert letters == {
        of_user: ("fatal", f"user {user_id} no longer exists"),
        of_firm: ("fatal", f"firm {firm_id} no longer exists"),
    }


def test_tables_come_before_those_they_refer_to() -> None:
    place = {one.table: number for number, one in enumerate(owned_tables())}
    assert place["mail_attachment"] < place["mail_message"] < place["mail_mailaccount"]
    loose = {(one.table, column) for one in owned_tables() for column in one.loose}
    assert ("mail_mailthread", "classified_upto_id") in loose
    # An approval is deleted with its message or action, instead of losing its reference.
    assert place["mail_approval"] < place["mail_outboundmessage"] < place["mail_action"]
    assert ("mail_approval", "outbound_id") not in loose
    assert "tenants_auditentry" not in place


@pytest.mark.req("T-05")
def test_the_database_refuses_to_change_or_delete_the_audit_log(firm: Firm) -> None:
    delete_firm(firm, "test")
    statements = ("UPDATE tenants_auditentry SET reason = 'x'", "DELETE FROM tenants_auditentry")
    for statement in statements:
        with (
            all_firms("test"),
            pytest.raises(Exception, match="append-only"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)
    assert acts() == [("firm.delete", str(firm.pk))]
