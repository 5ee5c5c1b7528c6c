"""A handler's own writes and the completion of its job are committed together or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from jobs.engine.claim import Claim
from jobs.engine.lease import mark_processing
from jobs.engine.outcomes import Completed, DeadLettered, Released, Retry, Settlement
from jobs.engine.settle import settle
from jobs.errors import Cancel, Fatal, JobTimeout, LeaseLost, WrongPlace
from jobs.execution import telemetry
from jobs.execution.context import JobContext, Signals
from jobs.execution.events import emit_settled
from jobs.execution.telemetry import fields_of
from jobs.models import JobQueue
from jobs.queue import cancel, enqueue
from jobs.registry import job
from jobs.states import DeadReason
from jobs.worker.threads import StopReason, ThreadRunner
from mail.models import MailAccount
from tenants.local_settings import ENGINE_SETTING
from tenants.models import Firm
from tenants.scope import current_scope, firm_scope
from tests.jobs.execution.conftest import NamePayload
from tests.queue_kit import (
    FAILURE,
    attempts,
    counted,
    dead_letters,
    finish,
    locks,
    perform,
    row,
    rows,
    table_rows,
    take,
    take_one,
)
from tests.support.databases import postgresql_only

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-19")]
committed = pytest.mark.django_db(transaction=True)


def write(address: str) -> None:
    MailAccount.objects.create(address=address)


def written() -> list[str]:
    return [account.address for account in rows(MailAccount)]


def complete(ctx: JobContext, work: Callable[[], object], result: Any = None) -> None:
    with ctx.transaction() as tx:
        work()
        tx.result = result


@committed
def test_the_handlers_writes_and_the_completion_are_committed_together(
    ctx: JobContext, firm: Firm
) -> None:
    with ctx.transaction() as tx:
        write("a@acme.example")
        tx.result = {"made": 1}
        assert JobQueue.objects.get(pk=ctx.job_id).status == "claimed"

    stored = row(ctx.job_id)
    assert (stored.status, stored.result, stored.attempts) == ("completed", {"made": 1}, 1)
    assert (stored.ready, stored.waiting, stored.live_key) == (False, False, None)
    assert stored.started_at is not None
    assert stored.completed_at is not None
    assert written() == ["a@acme.example"]
    assert (counted("completed"), attempts()) == (1, [])


def test_without_a_result_the_result_is_empty(ctx: JobContext) -> None:
    with ctx.transaction():
        pass
    assert row(ctx.job_id).result == {}


def test_the_firm_is_in_scope_and_no_other(ctx: JobContext, firm: Firm, other_firm: Firm) -> None:
    with ctx.transaction():
        scope = current_scope()
        assert scope is not None
        assert scope.only_firm_id == firm.pk
    assert current_scope() is None


@committed
@postgresql_only
@pytest.mark.req("T-02")
def test_the_handler_does_not_get_the_engines_sight(
    ctx: JobContext, firm: Firm, other_firm: Firm
) -> None:
    enqueue("test.child", firm=other_firm)

    def seen() -> int:
        return int(table_rows("SELECT count(*) FROM jobs_jobqueue")[0][0])

    with ctx.transaction():
        assert seen() == 1
        ctx.step("look", lambda: None)
        ctx.enqueue("test.child")
        assert seen() == 2
    assert table_rows("SELECT coalesce(current_setting('mailroom.engine', true), '')") == [("",)]


class Broken(Exception):
    """An error that a handler may raise."""


@pytest.mark.parametrize("error", [Broken("no"), JobTimeout(), Cancel("no"), SystemExit(3)])
def test_whatever_is_raised_inside_undoes_everything(ctx: JobContext, error: BaseException) -> None:
    def fail() -> None:
        write("a@acme.example")
        ctx.enqueue("test.child")
        ctx.step("one", lambda: 1)
        raise error

    raised = LeaseLost if isinstance(error, JobTimeout) else type(error)
    with pytest.raises(raised):
        complete(ctx, fail)
    assert row(ctx.job_id).status == "claimed"
    assert len(rows(JobQueue)) == 1
    assert written() == []
    ctx.heartbeat()
    assert ctx.step("one", lambda: 2) == 2


@pytest.mark.req("J-09", "J-14")
def test_a_late_holder_undoes_everything_and_the_newer_one_completes(
    ctx: JobContext, claim: Claim
) -> None:
    finish(claim, Released("taken away"))
    newer = take_one()
    with pytest.raises(LeaseLost):
        complete(ctx, lambda: write("late@acme.example"))
    assert written() == []
    assert row(ctx.job_id).lease_token == newer.lease_token
    finish(newer, Completed({"mine": True}))
    assert row(ctx.job_id).result == {"mine": True}


@pytest.mark.req("J-09", "J-14")
def test_a_lease_lost_inside_undoes_everything(ctx: JobContext, signals: Signals) -> None:
    def work() -> None:
        write("late@acme.example")
        signals.lease_lost.set()

    with pytest.raises(LeaseLost):
        complete(ctx, work)
    assert written() == []


@pytest.mark.req("J-16")
def test_a_cancel_seen_inside_undoes_everything_and_the_job_ends_canceled(
    firm: Firm, ctx: JobContext, claim: Claim, signals: Signals
) -> None:
    def work() -> None:
        write("a@acme.example")
        signals.cancel_requested = True

    with pytest.raises(LeaseLost, match="asked to stop"):
        complete(ctx, work)
    assert written() == []
    cancel(ctx.job_id)
    finish(claim, Released("lease lost"))
    assert row(ctx.job_id).status == "canceled"


@pytest.mark.req("J-16")
def test_a_cancel_the_worker_has_not_seen_yet_counts_too(ctx: JobContext) -> None:
    cancel(ctx.job_id)
    with pytest.raises(LeaseLost, match="asked to stop"):
        complete(ctx, lambda: write("a@acme.example"))
    assert written() == []
    assert row(ctx.job_id).status == "claimed"


@pytest.mark.req("J-16", "J-19")
def test_a_cancel_known_before_is_lost_as_one_that_comes_inside(
    ctx: JobContext, signals: Signals
) -> None:
    signals.cancel_requested = True

    def work() -> None:
        raise AssertionError("never reached")

    with pytest.raises(LeaseLost, match="asked to stop"):
        complete(ctx, work)


@pytest.mark.req("J-14", "J-19")
def test_a_timeout_counts_for_more_than_the_error_that_follows_it(
    ctx: JobContext, signals: Signals
) -> None:
    def work() -> None:
        signals.timed_out = True
        raise Broken("in its finally")

    with pytest.raises(LeaseLost, match="timeout"):
        complete(ctx, work)


@pytest.mark.req("J-14", "J-19")
def test_a_handler_that_swallows_its_timeout_commits_nothing(
    ctx: JobContext, signals: Signals
) -> None:
    def work() -> None:
        write("a@acme.example")
        signals.timed_out = True

    with pytest.raises(LeaseLost, match="timeout"):
        complete(ctx, work)
    assert written() == []


@committed
@pytest.mark.parametrize("ended", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("later", ["", "SELECT 1", "BEGIN"])
def test_a_transaction_that_the_handler_ended_itself_completes_nothing(
    ctx: JobContext, ended: str, later: str
) -> None:
    def work() -> None:
        write("a@acme.example")
        with connection.cursor() as cursor:
            cursor.execute(ended)
            if later:
                cursor.execute(later)

    with pytest.raises(Fatal, match="ended the transaction"):
        complete(ctx, work)
    assert row(ctx.job_id).status == "claimed"
    assert not connection.in_atomic_block


@committed
@postgresql_only
def test_ending_the_transaction_completes_nothing_though_the_job_is_seen(ctx: JobContext) -> None:
    def work() -> None:
        with connection.cursor() as cursor:
            cursor.execute("COMMIT")
            # With this setting the role sees the job, as a role does that row level security does
            # not bind.
            cursor.execute("SELECT set_config(%s, 'on', true)", [ENGINE_SETTING])

    with pytest.raises(Fatal, match="ended the transaction"):
        complete(ctx, work)
    assert row(ctx.job_id).status == "claimed"


@committed
@postgresql_only
@pytest.mark.parametrize("later", [False, True])
def test_ending_the_transaction_completes_nothing_in_another_scope(
    ctx: JobContext, other_firm: Firm, later: bool
) -> None:
    def work() -> None:
        with connection.cursor() as cursor:
            cursor.execute("COMMIT")
            if later:
                cursor.execute("SELECT 1")
        # At the end of its block, the scope sets the outer scope's settings again.
        with firm_scope(other_firm):
            write("a@acme.example")

    with pytest.raises(Fatal, match="ended the transaction"):
        complete(ctx, work)
    assert row(ctx.job_id).status == "claimed"
    assert written() == []


@committed
def test_it_must_be_the_outermost_transaction(ctx: JobContext) -> None:
    with (
        transaction.atomic(),
        pytest.raises(WrongPlace, match="outermost"),
        ctx.transaction(),
    ):
        raise AssertionError("never reached")
    with pytest.raises(WrongPlace), ctx.transaction(), ctx.transaction():
        raise AssertionError("never reached")
    ctx.heartbeat()


def test_inside_a_test_case_it_works_as_in_a_worker(ctx: JobContext) -> None:
    with ctx.transaction() as tx:
        tx.result = {"kit": True}
    assert row(ctx.job_id).result == {"kit": True}


@pytest.mark.parametrize("result", [object(), float("nan"), "\x00"])
def test_a_result_that_is_no_json_undoes_everything(ctx: JobContext, result: Any) -> None:
    with pytest.raises(Fatal, match=r"test\.parent"):
        complete(ctx, lambda: write("a@acme.example"), result)
    assert written() == []


@committed
def test_an_error_the_database_raises_at_the_commit_undoes_the_completion(
    ctx: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit_fails() -> None:
        raise IntegrityError("a deferred constraint")

    monkeypatch.setattr(connection, "commit", commit_fails)
    with pytest.raises(IntegrityError):
        complete(ctx, lambda: write("a@acme.example"))
    monkeypatch.undo()
    assert row(ctx.job_id).status == "claimed"
    assert written() == []


@pytest.mark.parametrize(
    "ending",
    [Completed({"returned": 1}), Retry(60, FAILURE), Released("late"), DeadLettered(DeadReason.FATAL, FAILURE)],
    ids=lambda ending: type(ending).__name__,
)  # fmt: skip
def test_what_comes_after_the_commit_changes_nothing(
    ctx: JobContext, claim: Claim, ending: Any
) -> None:
    with ctx.transaction() as tx:
        tx.result = {"made": 1}
    before = vars(row(ctx.job_id))

    report = finish(claim, ending)

    assert not report.stale
    after = vars(row(ctx.job_id))
    assert {**after, "_state": None} == {**before, "_state": None}
    assert (counted("completed"), attempts(), dead_letters()) == (1, [], [])


def test_it_completes_once(ctx: JobContext) -> None:
    with ctx.transaction():
        write("first@acme.example")
    calls: list[int] = []
    with pytest.raises(WrongPlace, match=r"the job is completed: its ctx\.transaction"):
        complete(ctx, lambda: write("second@acme.example"))
    with pytest.raises(WrongPlace, match="put all writes into that one block"):
        ctx.step("late", lambda: calls.append(1))
    with pytest.raises(WrongPlace):
        ctx.heartbeat()
    assert (written(), calls) == (["first@acme.example"], [])


@committed
def test_it_completes_once_although_a_callback_of_its_commit_fails(ctx: JobContext) -> None:
    def fail() -> None:
        raise Broken("after the commit")

    with pytest.raises(Broken), ctx.transaction():
        transaction.on_commit(fail)
    with pytest.raises(WrongPlace, match="the job is completed"):
        ctx.heartbeat()


@committed
@pytest.mark.req("J-20")
def test_its_lock_goes_to_the_next_at_the_commit(firm: Firm) -> None:
    first = enqueue("test.locked", {"name": "key"}, firm=firm).job_id
    second = enqueue("test.locked", {"name": "key"}, firm=firm).job_id
    held = take_one()
    assert held.job_id == first
    with JobContext(held, Signals()).transaction():
        pass
    assert [lock.holder_id for lock in locks()] == [f"job:{second}"]
    assert [claimed.job_id for claimed in take()] == [second]


def test_an_error_after_the_commit_is_told_and_the_attempt_counts_as_completed(
    firm: Firm, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @job("test.late_error", category="sync", payload=NamePayload)
    def handle(payload: NamePayload, ctx: JobContext) -> None:
        with ctx.transaction() as tx:
            tx.result = {"made": 1}
        raise Broken("after the commit")

    told: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(telemetry, "log", lambda name, fields, **_: told.append((name, fields)))
    monkeypatch.setattr(
        telemetry,
        "log_many",
        lambda name, them: told.extend((name, one) for one in fields_of(them)),
    )
    enqueue("test.late_error", firm=firm)
    held = take_one()
    settlement = Settlement(held, perform(held), 0.1)
    assert isinstance(settlement.outcome, Retry)

    emit_settled([settlement], settle([settlement]))

    (failed, finished) = told
    assert failed[0] == "job.failed_after_completion"
    assert failed[1]["error_class"].endswith("Broken")
    assert finished[0] == "job.attempt_finished"
    assert (finished[1]["outcome"], finished[1]["error_class"]) == ("completed", None)
    assert (row(held.job_id).status, row(held.job_id).last_error) == ("completed", "")
    (record,) = [one for one in caplog.records if one.name == "jobs.attempts"]
    # Nothing will try it again, although it has attempts left.
    assert record.levelname == "ERROR"
    explained = record.getMessage()
    assert f"job_id={held.job_id}" in explained
    assert "status=completed" in explained
    assert "Traceback" in explained
    assert "after the commit" in explained


@pytest.fixture
def reachable(claim: Claim, signals: Signals) -> ThreadRunner:
    """Return the runner of this thread, which a worker's other threads can interrupt."""
    runner = ThreadRunner(claim, signals, Random(1))
    runner._thread_id = threading.get_ident()
    return runner


@committed
@pytest.mark.req("J-14")
def test_a_timeout_in_the_middle_of_the_commit_waits_for_its_end(
    ctx: JobContext, claim: Claim, reachable: ThreadRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = connection.commit

    def commit_late() -> None:
        reachable.stop(StopReason.TIMEOUT)
        commit()

    monkeypatch.setattr(connection, "commit", commit_late)
    with pytest.raises(JobTimeout):
        complete(ctx, lambda: write("a@acme.example"), {"made": 1})
    monkeypatch.undo()

    finish(claim, Retry(60, FAILURE))
    assert (row(ctx.job_id).status, row(ctx.job_id).result) == ("completed", {"made": 1})
    assert written() == ["a@acme.example"]


@committed
@pytest.mark.req("J-14", "J-19")
def test_a_timeout_right_after_the_commit_does_not_say_that_nothing_was_written(
    ctx: JobContext, signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def struck_at_the_end() -> Iterator[None]:
        yield
        raise JobTimeout

    monkeypatch.setattr(signals, "shielded", struck_at_the_end)
    with pytest.raises(JobTimeout):
        complete(ctx, lambda: write("a@acme.example"))
    assert row(ctx.job_id).status == "completed"
    assert written() == ["a@acme.example"]


@committed
@pytest.mark.req("J-14")
def test_a_timeout_in_the_middle_of_the_rollback_waits_for_its_end(
    ctx: JobContext, reachable: ThreadRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollback = connection.rollback

    def lose_the_lease() -> None:
        write("a@acme.example")
        ctx._signals.lease_lost.set()

    def roll_back_late() -> None:
        reachable.stop(StopReason.TIMEOUT)
        rollback()

    monkeypatch.setattr(connection, "rollback", roll_back_late)
    with pytest.raises(LeaseLost):
        complete(ctx, lose_the_lease)
    monkeypatch.undo()

    assert row(ctx.job_id).status == "claimed"
    assert written() == []


@pytest.mark.req("J-14")
def test_a_timeout_inside_the_block_strikes_at_once(
    ctx: JobContext, reachable: ThreadRunner
) -> None:
    def linger() -> None:
        reachable.stop(StopReason.TIMEOUT)
        raise AssertionError("never reached")

    with pytest.raises(LeaseLost, match="timeout"):
        complete(ctx, linger)
    assert row(ctx.job_id).status == "claimed"


@committed
@postgresql_only
@pytest.mark.req("J-14")
def test_the_workers_pulse_does_not_wait_for_a_transaction_that_holds_the_job(
    ctx: JobContext, claim: Claim
) -> None:
    def beat() -> None:
        try:
            mark_processing([claim])
        finally:
            connection.close()

    with ctx.transaction():
        ctx.step("hold", int)
        pulse = threading.Thread(target=beat, daemon=True)
        pulse.start()
        pulse.join(10)
        assert not pulse.is_alive()
    assert row(ctx.job_id).status == "completed"
