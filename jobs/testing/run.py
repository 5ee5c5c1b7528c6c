"""Runs jobs in the test's own thread, as a worker would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test import TestCase
from uuid_utils.compat import uuid7

from jobs.engine.admission import admit
from jobs.engine.claim import Claim, claim, claim_one
from jobs.engine.enqueue import EnqueueResult, enqueue
from jobs.engine.fair_share import FairShare
from jobs.engine.lookup import read_job
from jobs.engine.outcomes import DeadLettered, Outcome, Released, Retry, Settlement, Snoozed
from jobs.engine.settle import settle
from jobs.execution.async_bridge import calls_stay_on_this_thread
from jobs.execution.context import Signals
from jobs.execution.events import emit_settled
from jobs.execution.executor import execute
from jobs.models import JobQueue
from jobs.queries.why_waiting import WaitCode, why_waiting
from jobs.states import AttemptEnd, Status
from jobs.worker.maintenance import Maintenance
from jobs.worker.pending_work import Lookout
from jobs.worker.state import WorkerState
from tenants.scope import all_firms, current_scope

# A queue that still has work after so many jobs feeds itself.
MOST_JOBS = 1000
STALE = "stale"

_GOES_ROUND = {
    Retry: AttemptEnd.RETRIED,
    Snoozed: AttemptEnd.SNOOZED,
    Released: AttemptEnd.RELEASED,
}
# Here the test itself is the worker.
_NO_WORKER = frozenset({WaitCode.NO_WORKER, WaitCode.NO_WORKER_FOR_CATEGORY, WaitCode.UNKNOWN_TYPE})


# A stored job, or the type of one to be enqueued.
Job = str | UUID | JobQueue | EnqueueResult


class NotRunnable(AssertionError):
    """The job cannot run now; the message says what stands in its way."""


class _NoJitter(Random):
    """Draws the middle of every range, so that backoff is exact."""

    def random(self) -> float:
        return 0.5


@dataclass(frozen=True)
class Ran:
    """One attempt that was run.

    `end` is the status the job ended in (completed, failed, dlq, canceled), else retried, snoozed
    or released; stale when something took the job away while its handler ran.
    """

    job_id: UUID
    job_type: str
    outcome: Outcome
    end: str

    def __str__(self) -> str:
        why = ""
        if isinstance(self.outcome, Retry | DeadLettered):
            why = f": {self.outcome.failure.error_class}: {self.outcome.failure.message}"
        return f"{self.job_type} {self.job_id} {self.end}{why}"


@dataclass(frozen=True)
class DrainReport:
    """What a drain ran, in order."""

    ran: tuple[Ran, ...]

    @property
    def counts(self) -> Counter[str]:
        """How many attempts ended in which way."""
        return Counter(one.end for one in self.ran)

    @property
    def jobs(self) -> list[JobQueue]:
        """The jobs as they stand now, in the order of their first attempt."""
        return [read_job(job_id) for job_id in dict.fromkeys(one.job_id for one in self.ran)]

    def __str__(self) -> str:
        return "\n".join(map(str, self.ran)) or "nothing was runnable"


def drain(*, max_jobs: int | None = None) -> DrainReport:
    """Run whatever is runnable, follow-ups too, until nothing is or `max_jobs` were run.

    Jobs of the future and backoffs stay: move the clock (`frozen_time`) and drain again. Backoff
    has no jitter here. Timeouts are not watched, and every job runs in this process.

    Raises:
        AssertionError: without `max_jobs`, the queue does not come to rest.
        RuntimeError: called inside a tenant scope.
    """
    _refuse_scope()
    worker_id, fair_share = uuid7(), FairShare()
    ran: list[Ran] = []
    do_chores()
    while max_jobs is None or len(ran) < max_jobs:
        claimed = _next(worker_id, fair_share)
        if claimed is None:
            break
        ran.append(settled(claimed, performed(claimed)))
        if max_jobs is None and len(ran) > MOST_JOBS:
            last = ", ".join(sorted({one.job_type for one in ran[-10:]}))
            raise AssertionError(f"the queue feeds itself: {MOST_JOBS} jobs, the last of {last}")
    return DrainReport(tuple(ran))


def _next(worker_id: UUID, fair_share: FairShare) -> Claim | None:
    """Claim whatever comes next; the chores may find more."""
    claims = claim(worker_id, 1, fair_share)
    if not claims:
        do_chores()
        claims = claim(worker_id, 1, fair_share)
    return claims[0] if claims else None


def run_job(
    job: Job,
    payload: Mapping[str, Any] | None = None,
    **options: Any,
) -> JobQueue:
    """Run one attempt of a job and return the job as it stands then.

    `job` is a stored job, or a type: then one is enqueued first, with `payload` and `options` as
    `jobs.queue.enqueue` takes them. What the handler raises is an outcome, as in a worker: look at
    `status` and `last_error`.

    Raises:
        NotRunnable: it is not due, waits for something, or is over.
        RuntimeError: called inside a tenant scope.
    """
    claimed = claimed_now(stored(job, payload, **options))
    settled(claimed, performed(claimed))
    return read_job(claimed.job_id)


def stored(job: Job, payload: Mapping[str, Any] | None, **options: Any) -> UUID:
    """Return the id of this job; of a type, enqueue one.

    Raises:
        RuntimeError: called inside a tenant scope.
    """
    _refuse_scope()
    if isinstance(job, UUID):
        return job
    return (enqueue(job, payload, **options) if isinstance(job, str) else job).job_id


def claimed_now(job_id: UUID) -> Claim:
    """Claim this job, admitted first where it waits.

    Raises:
        NotRunnable: it is not due, waits for something, or is over.
    """
    do_chores()
    job = read_job(job_id)
    claimed = claim_one(uuid7(), job_id, firm_id=job.firm_id, priority=job.priority)
    if claimed is None:
        raise NotRunnable(f"{job.job_type} {job_id} cannot run now: {_obstacles(job_id)}")
    return claimed


def do_chores() -> None:
    """Admit, expire and rescue, as any worker does for all."""
    Maintenance(WorkerState(), Lookout()).run_once()


def performed(claimed: Claim) -> Outcome:
    """Run the handler and say how the attempt ended; nothing of that is written."""
    with _outside_the_tests_transaction(), calls_stay_on_this_thread():
        return execute(claimed, rng=_NoJitter(), signals=Signals(), run_async=_run_async)


@async_to_sync
async def _run_async(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return await coroutine


def settled(claimed: Claim, outcome: Outcome) -> Ran:
    """Write how the attempt ended, tell of it, and hand on what the job held."""
    settlement = Settlement(claimed, outcome, None if isinstance(outcome, Released) else 0.0)
    report = settle([settlement])
    emit_settled([settlement], report)
    admit(report.released_capacity)
    status = report.statuses.get(claimed.job_id)
    if status is None:
        end = STALE if report.stale else read_job(claimed.job_id).status
    else:
        end = _GOES_ROUND[type(outcome)] if status is Status.PENDING else status
    return Ran(claimed.job_id, claimed.job_type, outcome, str(end))


@contextmanager
def _outside_the_tests_transaction() -> Iterator[None]:
    """Let a handler inside a test's transaction find things as it would outside of one.

    What it wants done on commit is done when it has ended. A statement that failed spoils only
    what the handler did, not the rest of the test.
    """
    if not connection.in_atomic_block:
        yield
        return
    before = transaction.savepoint()
    pending = len(connection.run_on_commit)
    with TestCase.captureOnCommitCallbacks(execute=True):
        yield
        if connection.needs_rollback or not connection.is_usable():
            transaction.set_rollback(False)
            transaction.savepoint_rollback(before)
            del connection.run_on_commit[pending:]


def _obstacles(job_id: UUID) -> str:
    with all_firms("the test kit explains"):
        job = JobQueue.objects.select_related("firm").get(pk=job_id)
        if job.status != Status.PENDING:
            return f"it is {job.status}"
        reasons = [one.detail for one in why_waiting(job) if one.code not in _NO_WORKER]
    return "; ".join(reasons) or "its time to start is over"


def _refuse_scope() -> None:
    if current_scope() is not None:
        raise RuntimeError("run jobs outside of firm_scope(): a worker has no scope either")
