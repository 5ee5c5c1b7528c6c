"""The reference model of maintenance tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from jobs.conf import lease_seconds, retention_days
from jobs.engine.prune import REVIEWED_RETENTION_DAYS
from jobs.states import AttemptEnd, DeadReason, Resolution, Status
from tests.properties.queue_machine.state import Job, LockKey, Seconds, State
from tests.properties.queue_machine.work import backoff

DAY: Seconds = 86_400


def heartbeat(state: State, worker_id: UUID) -> bool:
    """Extend the worker's lease; return False if the worker was marked dead."""
    worker = state.workers.get(worker_id)
    if worker is None or worker.dead:
        return False
    worker.lease_until = state.now + int(lease_seconds())
    return True


def mark_dead(state: State) -> list[UUID]:
    """Mark the workers dead whose lease is over; return all that are marked dead."""
    for worker in state.workers.values():
        worker.dead = worker.dead or worker.lease_until < state.now
    return [worker_id for worker_id, worker in state.workers.items() if worker.dead]


@dataclass(frozen=True)
class Decision:
    """What a rescuer decides about a job, if the job still has the token."""

    job_id: UUID
    token: int
    started: bool
    refunded: bool
    status: Status
    delay: Seconds = 0
    reason: DeadReason | None = None


def look(state: State, worker_id: UUID) -> list[Decision]:
    """Return the decisions of a rescuer about the jobs of a worker that it takes for dead."""
    worker = state.workers.get(worker_id)
    return [
        _decide(
            job,
            started=job.status is Status.PROCESSING
            or (worker is not None and job.job_id in worker.running),
        )
        for job in state.jobs.values()
        if job.in_flight and job.worker == worker_id
    ]


def _decide(job: Job, *, started: bool) -> Decision:
    seen = (job.job_id, job.token, started, not started)
    if job.cancel_requested:
        return Decision(*seen, Status.CANCELED)
    if not started:
        return Decision(*seen, Status.PENDING)
    given_up = Status.DLQ if job.kind.dead_letter else Status.FAILED
    if job.deaths == 2:
        return Decision(*seen, given_up, reason=DeadReason.POISON)
    if job.attempts >= job.kind.max_attempts:
        return Decision(*seen, given_up, reason=DeadReason.STALE)
    return Decision(*seen, Status.PENDING, backoff(job.attempts))


def take_back(state: State, decisions: Iterable[Decision]) -> set[LockKey]:
    """Take back the jobs that have not changed since; return the lock keys that this frees."""
    freed = set()
    for decision in decisions:
        job = state.held(decision.job_id, decision.token)
        if job is None:
            continue
        state.keep(job.job_id, job.series, job.attempts, AttemptEnd.RESCUED)
        state.move(job, decision.status)
        job.token = 0
        job.worker = None
        job.deaths += decision.started
        job.attempts -= decision.refunded
        if decision.started and job.status is Status.PENDING:
            job.scheduled = state.now + decision.delay
        if job.status is Status.DLQ and decision.reason is not None:
            state.bury(job, decision.reason)
        if job.status is not Status.PENDING:
            state.count(job, job.status.value)
        if job.lock_key is not None:
            freed.add((job.firm_id, job.lock_key))
    return freed


def rescue(state: State) -> set[LockKey]:
    """Mark silent workers dead, take back their jobs, and remove their rows."""
    freed = set()
    for worker_id in mark_dead(state):
        freed |= take_back(state, look(state, worker_id))
        del state.workers[worker_id]
    return freed


def rescue_orphans(state: State) -> set[LockKey]:
    """Take back jobs whose worker has no row, once they have not changed for a lease."""
    owners = {
        job.worker
        for job in state.jobs.values()
        if job.in_flight
        and job.worker not in state.workers
        and job.touched < state.now - lease_seconds()
    }
    freed = set()
    for owner in owners:
        if owner is not None:
            freed |= take_back(state, look(state, owner))
    return freed


def expire(state: State) -> int:
    """End the jobs that expired before they started."""
    late = [
        job
        for job in state.jobs.values()
        if job.status is Status.PENDING and job.expires is not None and job.expires <= state.now
    ]
    for job in late:
        state.move(job, Status.FAILED)
        state.count(job, "failed")
    return len(late)


def sweep(state: State) -> int:
    """Admit all jobs that can be admitted."""
    return state.admit(
        (job.firm_id, job.lock_key) for job in state.jobs.values() if job.lock_key is not None
    )


def prune(state: State, firm_id: int) -> None:
    """Delete what ended long ago, but no job that has a dead letter."""
    reviewed_before = state.now - REVIEWED_RETENTION_DAYS * DAY
    for place, letter in list(state.letters.items()):
        decided = letter.resolution in (Resolution.REPROCESSED, Resolution.DISCARDED)
        if letter.firm_id == firm_id and decided and (letter.reviewed or 0) < reviewed_before:
            del state.letters[place]
    spoken_of = {job_id for job_id, _ in state.letters}
    cutoff = state.now - retention_days() * DAY
    over = (Status.COMPLETED, Status.FAILED, Status.CANCELED)
    gone = {
        job.job_id
        for job in state.jobs.values()
        if job.firm_id == firm_id
        and job.status in over
        and job.completed is not None
        and job.completed < cutoff
        and job.job_id not in spoken_of
    }
    for job_id in gone:
        del state.jobs[job_id]
    state.history = [ended for ended in state.history if ended.job_id not in gone]
    for counted in list(state.counters):
        if counted[0] == firm_id and counted[2] * 60 < cutoff:
            del state.counters[counted]
