"""Canceling: a pending job ends at once, a running one when its handler notices the cancel."""

from __future__ import annotations

import pytest

from jobs.engine.admission import admit
from jobs.engine.outcomes import Canceled, Completed
from jobs.errors import UnknownJob, WrongState
from jobs.execution.context import JobContext, Signals
from jobs.models import FanIn, JobQueue
from jobs.queue import EnqueueSpec, cancel, edit, enqueue, pause, retry, why_waiting
from tenants.models import AuditEntry, Firm
from tenants.scope import firm_scope
from tests.jobs.engine.conftest import Add
from tests.queue_kit import (
    attempts,
    dead_letters,
    finish,
    locks,
    new_worker,
    row,
    rows,
    take,
    take_one,
    take_started,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-16")]


def audited() -> list[tuple[str, str]]:
    return [(entry.act, entry.reason) for entry in rows(AuditEntry)]


def test_a_job_is_operated_on_as_its_enqueue_returned_it(firm: Firm) -> None:
    result = enqueue("noop", firm=firm, delay=60)
    assert edit(result, priority=0).priority == 0
    assert why_waiting(result)[0].code == "scheduled"
    assert cancel(result).status == "canceled"
    assert retry(result).status == "pending"


def test_a_pending_job_ends_at_once(add: Add) -> None:
    job_id = add()
    done = cancel(job_id, reason="ordered twice")
    assert (done.status, done.attempts, done.completed_at is not None) == ("canceled", 0, True)
    assert done.cancel_requested_at is not None
    assert take() == []
    assert (attempts(), dead_letters()) == ([], [])
    assert audited() == [("job.cancel", "ordered twice")]


def test_the_idempotency_key_of_a_canceled_job_is_free(add: Add, firm: Firm) -> None:
    first = add(idempotency_key="import:7")
    cancel(first)
    again = enqueue("test.work", {"name": ""}, firm=firm, idempotency_key="import:7")
    assert again.created
    assert again.job_id != first


def test_a_job_that_waits_for_a_lock_ends_and_the_next_one_gets_the_lock(add: Add) -> None:
    first, second, third = (add("test.locked", "ledger") for _ in range(3))
    held = take_one()
    assert held.job_id == first
    assert cancel(second).status == "canceled"
    assert len(locks()) == 1
    admit(finish(held, Completed({})).released_capacity)
    assert take_one().job_id == third


def test_a_running_job_is_asked_once_and_goes_on_until_it_notices(add: Add) -> None:
    job_id = add()
    held = take_started(new_worker())
    asked = cancel(job_id, reason="the first")
    assert asked.status in {"claimed", "processing"}
    assert asked.cancel_requested_at is not None
    again = cancel(job_id, reason="the second")
    assert again.cancel_requested_at == asked.cancel_requested_at
    assert audited() == [("job.cancel", "the first")]
    finish(held, Canceled("asked to stop"))
    assert row(job_id).status == "canceled"
    assert [attempt.end for attempt in attempts()] == ["canceled"]
    assert dead_letters() == []


def test_a_running_job_that_completes_before_it_notices_is_completed(add: Add) -> None:
    job_id = add()
    held = take_started(new_worker())
    cancel(job_id)
    finish(held, Completed({"done": True}))
    assert row(job_id).status == "completed"


def test_the_lock_of_a_running_job_is_freed_when_it_stops(add: Add) -> None:
    first, second = (add("test.locked", "ledger") for _ in range(2))
    held = take_one()
    cancel(first)
    # The first job still runs, so no other may have its lock.
    assert take() == []
    assert len(locks()) == 1
    admit(finish(held, Canceled("asked to stop")).released_capacity)
    assert take_one().job_id == second


def test_a_canceled_child_is_not_waited_for(add: Add) -> None:
    add()
    ctx = JobContext(take_one(), Signals())
    specs = [EnqueueSpec("test.other", {"name": name}) for name in ("a", "b")]
    then = ("test.other", {"name": "sum"})
    first, second = (child.job_id for child in ctx.enqueue_many(specs, then=then))
    cancel(second)
    assert rows(FanIn)[0].fired_at is None
    finish(take_one(), Completed({}))
    assert row(first).status == "completed"
    (fan_in,) = rows(FanIn)
    assert fan_in.fired_at is not None
    assert [job.payload["name"] for job in rows(JobQueue) if job.pk == fan_in.then_job_id] == [
        "sum"
    ]


@pytest.mark.parametrize("end", [Completed({}), Canceled("asked to stop")])
def test_a_job_that_is_over_cannot_be_canceled(add: Add, end: Completed | Canceled) -> None:
    job_id = add()
    finish(take_one(), end)
    before = row(job_id)
    with pytest.raises(WrongState, match="over"):
        cancel(job_id)
    assert row(job_id).updated_at == before.updated_at
    assert audited() == []


@pytest.mark.req("T-03")
def test_another_firms_job_is_unknown(add: Add, other_firm: Firm) -> None:
    job_id = add()
    with firm_scope(other_firm), pytest.raises(UnknownJob):
        cancel(job_id)
    assert row(job_id).status == "pending"


@pytest.mark.parametrize("reason", ["a\x00b", "a\ud800b"], ids=["NUL", "half a character"])
def test_a_reason_is_stored_whatever_characters_it_has(add: Add, firm: Firm, reason: str) -> None:
    shown = {"a\N{REPLACEMENT CHARACTER}b", "a?b"}
    cancel(add(), reason=reason)
    with firm_scope(firm):
        assert pause(firm=firm, job_type="test.work", reason=reason).reason in shown
    ((_, kept), _) = audited()
    assert kept in shown
