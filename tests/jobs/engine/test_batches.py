"""Batches: jobs that are enqueued as one, with one job for each event."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from uuid_utils.compat import uuid7

from jobs.engine.batches import sweep_batches
from jobs.engine.claim import Claim
from jobs.engine.clock import database_now
from jobs.engine.delete_owned import delete_jobs
from jobs.engine.outcomes import Completed, DeadLettered, Outcome, Retry, Snoozed
from jobs.engine.pending_work import read_pending_work
from jobs.engine.prune import prune
from jobs.engine.transactions import in_transaction
from jobs.errors import ArgumentsInvalid, PayloadInvalid, UnknownJob
from jobs.models import Batch, BatchMember, JobQueue
from jobs.queue import (
    BatchProgress,
    BatchResult,
    EnqueueSpec,
    batch_progress,
    cancel,
    enqueue,
    enqueue_batch,
    reprocess,
    retry,
)
from jobs.registry import JobPayload, job
from jobs.states import BatchState, DeadReason
from jobs.testing import drain
from tenants.models import Firm
from tenants.scope import all_firms, firm_scope
from tests.factories.tenants import FirmFactory
from tests.queue_kit import FAILURE, change, dead_letters, finish, later, row, rows, take

pytestmark = [pytest.mark.django_db, pytest.mark.req("A-02")]

DONE = Completed({})
DEAD = DeadLettered(DeadReason.FATAL, FAILURE)


class NamePayload(JobPayload):
    """The payload of the jobs of a batch."""

    name: str = ""


@pytest.fixture(autouse=True)
def ran(job_types: dict[str, Any]) -> list[str]:
    """Declare the type of the jobs; return the names of those that ran."""
    names: list[str] = []

    @job("test.part", category="sync", payload=NamePayload)
    def part(payload: NamePayload, ctx: Any) -> None:
        names.append(payload.name)
        if payload.name.startswith("bad"):
            raise ValueError(payload.name)

    return names


def spec(name: str, **options: Any) -> EnqueueSpec:
    return EnqueueSpec("test.part", {"name": name}, **options)


def batch(firm: Firm, *names: str, **options: Any) -> BatchResult:
    """Enqueue a batch that has a callback for each event."""
    callbacks = {f"on_{event}": spec(event) for event in ("failed", "settled", "completed")}
    return enqueue_batch([spec(name) for name in names], firm=firm, **{**callbacks, **options})


def names() -> list[str]:
    return [one.payload["name"] for one in rows(JobQueue)]


def counts(batch_id: UUID) -> tuple[int, int, int, int]:
    found = batch_progress(batch_id)
    return found.pending, found.completed, found.failed, found.canceled


@pytest.fixture
def end(
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> Callable[..., UUID]:
    """Return a function that ends the next job, and does what its worker does after the commit."""

    def ended(outcome: Outcome = DONE, *, name: str = "") -> UUID:
        with django_capture_on_commit_callbacks(execute=True):
            held = take(1)[0]
            finish(held, outcome)
        return held.job_id

    return ended


def test_all_completed(firm: Firm, end: Any) -> None:
    made = batch(firm, "a", "b", name="import")
    assert (made.created, [one.created for one in made.jobs]) == (True, [True, True])
    assert counts(made.batch_id) == (2, 0, 0, 0)
    end()
    assert names() == ["a", "b"]
    assert counts(made.batch_id) == (1, 1, 0, 0)
    assert batch_progress(made.batch_id).state == BatchState.RUNNING
    end()
    assert names() == ["a", "b", "settled", "completed"]
    (found,) = rows(Batch)
    settled, completed = rows(JobQueue)[2:]
    assert (found.name, found.failed_at) == ("import", None)
    assert (found.settled_job_id, found.completed_job_id) == (settled.pk, completed.pk)
    assert {one.correlation_id for one in rows(JobQueue)} == {found.correlation_id}
    assert batch_progress(made.batch_id).state == BatchState.COMPLETED
    assert sweep_batches(None) is None
    assert len(names()) == 4


def test_the_first_that_failed_and_all_over_and_completed_after_all(firm: Firm, end: Any) -> None:
    made = batch(firm, "a", "b", "c")
    end(DEAD)
    assert names() == ["a", "b", "c", "failed"]
    assert counts(made.batch_id) == (2, 0, 1, 0)
    end()
    end(DEAD)
    assert names() == ["a", "b", "c", "failed", "settled"]
    assert counts(made.batch_id) == (0, 1, 2, 0)
    assert batch_progress(made.batch_id).state == BatchState.FAILED
    for letter in dead_letters():
        reprocess(letter.pk)
    # The reprocessed jobs count as pending again, so the batch is running again.
    assert counts(made.batch_id) == (2, 1, 0, 0)
    assert batch_progress(made.batch_id).state == BatchState.RUNNING
    for _ in range(4):
        end()
    assert names() == ["a", "b", "c", "failed", "settled", "completed"]
    assert counts(made.batch_id) == (0, 3, 0, 0)


def test_one_that_is_retried_is_waited_for_again(firm: Firm, end: Any) -> None:
    made = batch(firm, "a", "b")
    first, other = (one.job_id for one in made.jobs)
    cancel(other)
    retry(other)
    change(other, scheduled_at=database_now() + timedelta(hours=1))
    assert end() == first
    assert names() == ["a", "b"]
    change(other, scheduled_at=database_now())
    assert end() == other
    assert names() == ["a", "b", "settled", "completed"]


@pytest.mark.parametrize(
    "outcome", [Retry(0, FAILURE), Snoozed(None, 1e-6)], ids=lambda o: type(o).__name__
)
def test_one_that_goes_round_again_is_waited_for(firm: Firm, end: Any, outcome: Outcome) -> None:
    made = batch(firm, "a")
    end(outcome)
    assert (names(), counts(made.batch_id)) == (["a"], (1, 0, 0, 0))
    end()
    assert names() == ["a", "settled", "completed"]


@pytest.mark.parametrize("deleted", [False, True])
def test_a_canceled_or_deleted_one_is_over_and_not_completed(firm: Firm, deleted: bool) -> None:
    made = batch(firm, "a")
    job_id = made.jobs[0].job_id
    if deleted:
        in_transaction(lambda: delete_jobs([(job_id, firm.pk)]))
    else:
        cancel(job_id)
    assert sweep_batches(None) is None
    assert names() == (["settled"] if deleted else ["a", "settled"])
    assert counts(made.batch_id) == (0, 0, 0, 1)
    assert batch_progress(made.batch_id).state == BatchState.CANCELED


def test_one_that_failed_has_failed_when_it_is_deleted_too(firm: Firm, end: Any) -> None:
    made = batch(firm, "a")
    end(DEAD)
    in_transaction(lambda: delete_jobs([(made.jobs[0].job_id, firm.pk)]))
    assert sweep_batches(None) is None
    assert counts(made.batch_id) == (0, 0, 1, 0)
    assert batch_progress(made.batch_id).state == BatchState.FAILED


def test_the_sweep_finds_what_a_killed_worker_left(firm: Firm) -> None:
    """Only the commits happen: nothing that a worker does after a commit is done here."""
    made = batch(firm, "a", "b")
    finish(take(1)[0], DONE)
    finish(take(1)[0], DEAD)
    assert names() == ["a", "b"]
    assert sweep_batches(None) is None
    assert names() == ["a", "b", "failed", "settled"]
    assert counts(made.batch_id) == (0, 1, 1, 0)


def test_the_sweep_finds_what_was_settled_without_notice(firm: Firm) -> None:
    made = batch(firm, "a")
    change(made.jobs[0].job_id, status="completed", ready=False, completed_at=database_now())
    assert sweep_batches(None) is None
    assert names() == ["a", "settled", "completed"]


@pytest.mark.req("J-22")
def test_a_job_that_its_batch_takes_to_be_live_is_not_purged(firm: Firm) -> None:
    made = batch(firm, "a")
    change(made.jobs[0].job_id, status="completed", ready=False, completed_at=database_now())
    with later(400 * 86_400), all_firms("test"):
        prune(firm)
        assert sweep_batches(None) is None
        assert batch_progress(made.batch_id).state == "completed"
        assert prune(firm).jobs == 1


def test_a_batch_of_nothing_is_completed_at_once(firm: Firm) -> None:
    made = batch(firm)
    assert names() == ["settled", "completed"]
    assert batch_progress(made.batch_id).total == 0


def test_without_callbacks_it_has_its_progress_only(firm: Firm, end: Any) -> None:
    made = enqueue_batch([spec("a")], firm=firm)
    end()
    found = batch_progress(made.batch_id)
    assert isinstance(found, BatchProgress)
    assert (found.state, found.total, found.completed_at is not None) == ("completed", 1, True)
    assert names() == ["a"]


@pytest.mark.req("J-06")
def test_a_job_that_has_the_key_of_one_is_of_the_batch(firm: Firm, end: Any) -> None:
    other = enqueue("test.part", {"name": "other"}, firm=firm, idempotency_key="k").job_id
    made = enqueue_batch(
        [spec("a", idempotency_key="k"), spec("b", idempotency_key="k")],
        on_completed=spec("then"),
        firm=firm,
    )
    assert [(one.job_id, one.created) for one in made.jobs] == [(other, False)] * 2
    assert counts(made.batch_id) == (1, 0, 0, 0)
    end()
    assert names() == ["other", "then"]


def test_a_job_may_be_of_several_batches(firm: Firm, end: Any) -> None:
    for name in ("one", "two"):
        enqueue_batch([spec("a", idempotency_key="k")], on_completed=spec(name), firm=firm)
    end()
    assert sorted(names()) == ["a", "one", "two"]


def test_its_id_stands_for_it_once(firm: Firm) -> None:
    batch_id = uuid7()
    first = batch(firm, "a", batch_id=batch_id)
    again = batch(firm, "a", batch_id=batch_id)
    assert (first.created, again.created, again.batch_id) == (True, False, batch_id)
    assert names() == ["a"]
    with pytest.raises(ArgumentsInvalid, match="batch_id"):
        batch(FirmFactory(), "a", batch_id=batch_id)
    assert names() == ["a"]


def test_it_rolls_back_with_its_caller(firm: Firm) -> None:
    with transaction.atomic():
        made = batch(firm, "a", "b")
        transaction.set_rollback(True)
    assert (rows(JobQueue), rows(Batch), rows(BatchMember)) == ([], [], [])
    with pytest.raises(UnknownJob):
        batch_progress(made.batch_id)


@pytest.mark.parametrize("refused", ["a", "on_failed", "on_settled", "on_completed"])
def test_what_is_refused_refuses_all(firm: Firm, refused: str) -> None:
    bad = EnqueueSpec("test.part", {"name": 1})
    parts, callbacks = ([spec("b"), bad], {}) if refused == "a" else ([spec("b")], {refused: bad})
    with pytest.raises(PayloadInvalid, match="name"):
        enqueue_batch(parts, firm=firm, **callbacks)  # type: ignore[arg-type]  # a parameter
    assert (rows(JobQueue), rows(Batch)) == ([], [])


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"on_failed": spec("x", at=database_now)}, "on_failed.at"),
        ({"on_settled": spec("x", max_wait=5)}, "on_settled.max_wait"),
        ({"name": "n" * 201}, "name"),
    ],
)
def test_other_faults(firm: Firm, options: dict[str, Any], field: str) -> None:
    with pytest.raises(ArgumentsInvalid) as refusal:
        batch(firm, "a", **options)
    assert [fault.field for fault in refusal.value.faults] == [field]


def test_each_callback_keeps_its_options(firm: Firm, end: Any) -> None:
    enqueue_batch([spec("a")], on_settled=spec("s", lock_key="lock", priority=1), firm=firm)
    end()
    settled = rows(JobQueue)[1]
    assert (settled.lock_key, settled.priority, settled.firm_id) == ("lock", 1, firm.pk)


@pytest.mark.req("J-27")
def test_the_test_kit_runs_it_to_its_end(firm: Firm, ran: list[str]) -> None:
    batch(firm, "a", "b", "c")
    drain()
    assert sorted(ran) == ["a", "b", "c", "completed", "settled"]


@pytest.mark.req("T-01")
def test_another_firm_sees_nothing_of_it(firm: Firm) -> None:
    batch(firm, "a")
    with firm_scope(FirmFactory()):
        assert not Batch.objects.exists()
        assert not BatchMember.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_maintenance_is_called_until_it_is_completed(firm: Firm) -> None:
    assert not read_pending_work().fan_ins
    batch(firm, "a")
    assert read_pending_work().fan_ins
    finish(take(1)[0], DONE)
    assert names() == ["a", "settled", "completed"]
    assert not read_pending_work().fan_ins


def test_the_purge_keeps_it_while_one_of_its_jobs_may_be_restarted(firm: Firm, end: Any) -> None:
    done, dead = batch(firm, "a"), enqueue_batch([spec("b")], firm=firm)
    end()
    end(DEAD)
    with later(400 * 86_400), all_firms("test"):
        found = prune(firm)
    assert found.batches == 1
    assert [one.pk for one in rows(Batch)] == [dead.batch_id]
    assert [one.batch_id for one in rows(BatchMember)] == [dead.batch_id]
    with pytest.raises(UnknownJob):
        batch_progress(done.batch_id)
    change(dead.jobs[0].job_id, status="completed", ready=False, completed_at=database_now())
    dead_letters_gone()
    sweep_batches(None)
    with later(400 * 86_400), all_firms("test"):
        assert prune(firm).batches == 1
    assert (rows(Batch), rows(BatchMember)) == ([], [])


@pytest.mark.django_db(transaction=True)
def test_the_last_jobs_settled_at_once_lead_to_each_callback_once(firm: Firm, chaos: bool) -> None:
    """Each round settles all jobs at the same moment, each in its own transaction."""
    rounds, width = (200, 8) if chaos else (8, 4)
    for number in range(rounds):
        batch(firm, *["a"] * width)
        held = take(width)
        together = Barrier(width)

        def settle_together(one: Claim) -> None:
            try:
                together.wait(10)  # noqa: B023 - called at once
                finish(one, DEAD if one is held[0] else DONE)  # noqa: B023 - called at once
            finally:
                connection.close()

        with ThreadPoolExecutor(width) as pool:
            list(pool.map(settle_together, held))
        # On a busy machine the others may keep the batch locked for longer than one waits.
        sweep_batches(None)
        callbacks = take(4)
        assert sorted(row(one.job_id).payload["name"] for one in callbacks) == ["failed", "settled"]
        for one in callbacks:
            finish(one, DONE)
        assert len(rows(Batch)) == number + 1


@pytest.mark.parametrize("name", ["a\x00b", "\ud800"], ids=["NUL", "half a character"])
def test_a_name_that_cannot_be_stored_is_refused(firm: Firm, name: str) -> None:
    with pytest.raises(ArgumentsInvalid) as refused:
        batch(firm, "a", name=name)
    assert [fault.field for fault in refused.value.faults] == ["name"]
    assert rows(JobQueue) == rows(Batch) == []


def dead_letters_gone() -> None:
    with all_firms("test"):
        for letter in dead_letters():
            letter.delete()


def test_a_full_sweep_goes_on_from_where_it_was(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.engine.batches.SWEEP_CHUNK", 2)
    batch(firm, "a", "b", "c")
    for held in take(3):
        change(held.job_id, status="completed", ready=False, completed_at=database_now())
    after = sweep_batches(None)
    assert after is not None
    assert names() == ["a", "b", "c"]
    assert sweep_batches(after) is None
    assert names() == ["a", "b", "c", "settled", "completed"]
