"""Runs jobs in the test's own thread, as a worker would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from uuid_utils.compat import uuid7

from jobs import registry
from jobs.engine.admission import admit
from jobs.engine.claim import Claim, claim, claim_one
from jobs.engine.current_job import in_event_loop
from jobs.engine.enqueue import EnqueueResult, enqueue
from jobs.engine.fair_share import FairShare
from jobs.engine.job_wait import read_job
from jobs.engine.outcomes import DeadLettered, Outcome, Released, Retry, Settlement, Snoozed
from jobs.engine.pending_work import PendingWorkReader
from jobs.engine.settle import settle
from jobs.engine.token_bucket import note_starts
from jobs.engine.transactions import reading
from jobs.execution.async_bridge import calls_stay_on_this_thread, run_on_this_thread
from jobs.execution.context import JobContext, Signals
from jobs.execution.events import emit_settled
from jobs.execution.executor import execute, failed
from jobs.models import JobQueue
from jobs.queries.why_waiting import OF_WORKERS, why_waiting
from jobs.states import AttemptEnd, Status
from jobs.testing.transactions import as_without_transaction
from jobs.worker.maintenance import Maintenance
from jobs.worker.state import SharedState
from tenants.scope import all_firms, current_scope

# With a longer chain of jobs, each enqueued by the one before, or more attempts of one job, or more
# jobs in all, `drain` assumes that the queue never drains.
MAX_CHAIN = 1000
MAX_JOBS = 100_000
STALE = "stale"

_ENDS_OF_PENDING = {
    Retry: AttemptEnd.RETRIED,
    Snoozed: AttemptEnd.SNOOZED,
    Released: AttemptEnd.RELEASED,
}
# A stored job, or the type of one to be enqueued.
Job = str | UUID | JobQueue | EnqueueResult


class NotRunnable(AssertionError):
    """The job cannot run now; the message says why."""


class _NoJitter(Random):
    """Draws the middle of every range, so that backoff is exact."""

    def random(self) -> float:
        return 0.5


class WatchingContext(JobContext):
    """`ctx` in a test: at every call it reads what a worker's heartbeat would have read."""

    @property
    def is_cancelled(self) -> bool:
        """Whether a cancel was requested; on an event loop, as of the last awaited call."""
        if not in_event_loop():
            self._watch()
        return super().is_cancelled

    def _checkpoint(self, twin: str) -> None:
        self._refuse_in_loop(f"{twin}(…)")
        self._watch()
        super()._checkpoint(twin)

    def _watch(self) -> None:
        rows = JobQueue.objects.unscoped("the test kit looks for a cancel")
        requested = rows.filter(pk=self.job_id, cancel_requested_at__isnull=False)
        if reading(requested.exists):
            self._signals.cancel_requested = True


@dataclass(frozen=True)
class Ran:
    """One attempt that was run.

    `end` is the status of a job that is over (completed, failed, dlq, canceled), otherwise retried,
    snoozed or released; stale when the job was taken away while its handler ran.
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
        """The number of attempts by `end`."""
        return Counter(one.end for one in self.ran)

    @property
    def jobs(self) -> list[JobQueue]:
        """The jobs as stored now, in the order of their first attempt."""
        return [read_job(job_id) for job_id in dict.fromkeys(one.job_id for one in self.ran)]

    def __str__(self) -> str:
        return "\n".join(map(str, self.ran)) or "nothing was runnable"


def drain(*, max_jobs: int | None = None) -> DrainReport:
    """Run jobs until none is runnable or `max_jobs` were run; also those they enqueue.

    Jobs that are not due yet stay: move the clock (`frozen_time`) and drain again. Backoff has no
    jitter. Timeouts are not enforced, and every job runs in this process.

    Raises:
        AssertionError: without `max_jobs`, the queue never drains.
        RuntimeError: called inside a tenant scope.
    """
    _refuse_scope()
    worker_id, fair_share = uuid7(), FairShare()
    ran: list[Ran] = []
    run_maintenance()
    while max_jobs is None or len(ran) < max_jobs:
        claims = claim(worker_id, 1, fair_share)
        if not claims:
            # Maintenance may admit or rescue another job.
            run_maintenance()
            claims = claim(worker_id, 1, fair_share)
        if not claims:
            break
        ran.append(settled(claims[0], performed(claims[0])))
        if max_jobs is None and len(ran) % MAX_CHAIN == 0:
            _refuse_endless(ran)
    return DrainReport(tuple(ran))


def _refuse_endless(ran: Sequence[Ran]) -> None:
    rows = JobQueue.objects.unscoped("the test kit looks for an endless chain")
    parents = reading(lambda: dict(rows.values_list("job_id", "parent_id")))
    length: Counter[UUID] = Counter()
    for one in ran:
        # A parent runs before its children; a job that runs again lengthens its own chain.
        before = max(length[one.job_id], length[parents.get(one.job_id) or one.job_id])
        length[one.job_id] = before + 1
    if len(ran) >= MAX_JOBS or max(length.values()) >= MAX_CHAIN:
        last = ", ".join(sorted({one.job_type for one in ran[-10:]}))
        raise AssertionError(f"the queue feeds itself: {len(ran)} attempts, the last of {last}")


def run_job(job: Job, payload: Mapping[str, Any] | None = None, **options: Any) -> JobQueue:
    """Run one attempt of a job and return the job as stored afterwards.

    `job` is a stored job, or a type: then one is enqueued first, with `payload` and `options` as
    `jobs.queue.enqueue` takes them. What the handler raises becomes its outcome, as in a worker:
    check `status` and `last_error`.

    Raises:
        NotRunnable: it is not due, waits for something, or is over.
        RuntimeError: called inside a tenant scope.
    """
    claimed = claimed_now(stored(job, payload, **options))
    settled(claimed, performed(claimed))
    return read_job(claimed.job_id)


def stored(job: Job, payload: Mapping[str, Any] | None, **options: Any) -> UUID:
    """Return the id of this job; if it is a type, enqueue a job of it.

    Raises:
        RuntimeError: called inside a tenant scope.
    """
    _refuse_scope()
    if isinstance(job, UUID):
        return job
    given: object = job
    if not isinstance(given, str | JobQueue | EnqueueResult):
        # This raises an error that says what to pass.
        registry.get(job)  # type: ignore[arg-type]
    return (enqueue(job, payload, **options) if isinstance(job, str) else job).job_id


def claimed_now(job_id: UUID) -> Claim:
    """Claim this job, after admitting it if it waits.

    Raises:
        NotRunnable: it is not due, waits for something, or is over.
    """
    run_maintenance()
    job = read_job(job_id)
    claimed = claim_one(uuid7(), job_id, firm_id=job.firm_id, priority=job.priority)
    if claimed is None:
        raise NotRunnable(f"{job.job_type} {job_id} cannot run now: {_obstacles(job_id)}")
    return claimed


def run_maintenance() -> None:
    """Admit, expire and rescue, as every worker does."""
    Maintenance(SharedState(), PendingWorkReader()).run_once()


def performed(claimed: Claim) -> Outcome:
    """Run the handler and return its outcome, which is not stored."""
    outcome: Outcome | None = None
    try:
        with as_without_transaction(), calls_stay_on_this_thread():
            outcome = execute(
                claimed,
                rng=_NoJitter(),
                signals=Signals(),
                run_async=run_on_this_thread,
                context=WatchingContext,
            )
    except Exception as error:
        if outcome is None:
            raise
        # Raised when the handler's transactions ended, for example by an on-commit callback. In a
        # worker the handler itself would raise it, so the attempt fails, unless it failed before.
        if not isinstance(outcome, Retry | DeadLettered):
            outcome = failed(claimed, error, rng=_NoJitter())
    return outcome


def settled(claimed: Claim, outcome: Outcome) -> Ran:
    """Store the outcome, emit its event, and admit the released capacity."""
    settlement = Settlement(claimed, outcome, None if isinstance(outcome, Released) else 0.0)
    report = settle([settlement])
    emit_settled([settlement], report)
    admit(report.released_capacity)
    note_starts()
    status = report.statuses.get(claimed.job_id)
    if status is None:
        end = STALE if report.stale else read_job(claimed.job_id).status
    else:
        end = _ENDS_OF_PENDING[type(outcome)] if status is Status.PENDING else status
    return Ran(claimed.job_id, claimed.job_type, outcome, str(end))


def _obstacles(job_id: UUID) -> str:
    with all_firms("the test kit explains"):
        job = JobQueue.objects.select_related("firm").get(pk=job_id)
        if job.status != Status.PENDING:
            return f"it is {job.status}"
        reasons = [one.detail for one in why_waiting(job) if one.code not in OF_WORKERS]
    return "; ".join(reasons) or "its time to start is over"


def _refuse_scope() -> None:
    if current_scope() is not None:
        raise RuntimeError("run jobs outside of firm_scope(): a worker has no scope either")
