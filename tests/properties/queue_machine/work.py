"""The reference model of workers, and of the code that enqueues."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from uuid import UUID

from jobs.conf import lease_seconds, unknown_type_grace_seconds
from jobs.engine.claim import Claim
from jobs.states import AttemptEnd, DeadReason, Status
from tests.properties.queue_machine.kinds import ASKED_DELAY, KINDS, SNOOZE, Does, Kind
from tests.properties.queue_machine.state import Job, Seconds, State, Worker


def enqueue(state: State, jobs: Sequence[Job]) -> list[UUID]:
    """Store the jobs one after the other; return for each the id of the job that has its key."""
    # Keys that are kept for ever are reserved for the whole batch before any job is stored.
    late: dict[UUID, UUID] = {}
    for job in jobs:
        if job.kind.once_only and job.key is not None:
            first = state.once_keys.setdefault((job.firm_id, job.key), job.job_id)
            if first != job.job_id:
                late[job.job_id] = first
    stands_for: dict[UUID, UUID] = {}
    for job in jobs:
        if job.job_id in late:
            first = late[job.job_id]
            stands_for[job.job_id] = stands_for.get(first, first)
            continue
        holder = state.holder_of(job.firm_id, job.key)
        stands_for[job.job_id] = holder or job.job_id
        if holder is None:
            state.jobs[job.job_id] = replace(job, touched=state.now)
        elif job.kind.once_only and job.key is not None:
            state.once_keys[job.firm_id, job.key] = holder
    return [stands_for[job.job_id] for job in jobs]


def register(state: State, worker_id: UUID) -> None:
    """Register a worker."""
    state.workers[worker_id] = Worker(state.now + int(lease_seconds()))


def claim(
    state: State, limit: int, served: dict[int, int], categories: Collection[str]
) -> list[Job]:
    """Return the next jobs, in order, and move the cursor on; the jobs are not claimed yet.

    Only the most urgent priority with jobs is served. Its firms are visited in the order of their
    ids, beginning after the one served last; each round takes one job of each. Visits are allotted
    before it is known how many jobs a firm has, so a visit to a firm without jobs left is lost.
    """
    due = [job for job in state.jobs.values() if _claimable(state, job, categories)]
    if not due:
        return []
    priority = min(job.priority for job in due)
    due = [job for job in due if job.priority == priority]
    last = served.get(priority, 0)
    firms = sorted({job.firm_id for job in due}, key=lambda firm_id: (firm_id <= last, firm_id))
    dealt = list(islice(cycle(firms), limit))
    served[priority] = dealt[-1]
    lines = {
        firm_id: iter(sorted((job for job in due if job.firm_id == firm_id), key=_in_line))
        for firm_id in firms
    }
    following = [next(lines[firm_id], None) for firm_id in dealt]
    return [job for job in following if job is not None]


def _in_line(job: Job) -> tuple[Seconds, UUID]:
    return job.place_in_line


def _claimable(state: State, job: Job, categories: Collection[str]) -> bool:
    return (
        job.status is Status.PENDING
        and job.ready
        and job.scheduled <= state.now
        and (job.expires is None or job.expires > state.now)
        and job.attempts < job.kind.max_attempts
        and (not categories or job.kind.category in categories)
    )


def take(state: State, job: Job, worker_id: UUID, token: int) -> None:
    """Claim the job, which counts an attempt."""
    job.status = Status.CLAIMED
    job.attempts += 1
    job.token = token
    job.worker = worker_id
    job.touched = state.now


def note_running(state: State, worker_id: UUID, job_ids: frozenset[UUID]) -> bool:
    """Note that these handlers are about to start; refused if the worker was marked dead."""
    worker = state.workers.get(worker_id)
    if worker is None or worker.dead:
        return False
    worker.running = job_ids
    return True


def mark_processing(state: State, claims: Sequence[Claim]) -> None:
    """Note that the handlers have run for a moment."""
    for one in claims:
        job = state.held(one.job_id, one.lease_token)
        if job is not None:
            job.status = Status.PROCESSING
            job.touched = state.now


@dataclass(frozen=True)
class Ending:
    """What an attempt leads to, if its claim still counts."""

    status: Status
    end: AttemptEnd
    delay: Seconds = 0
    refund: int = 0
    reason: DeadReason = DeadReason.FATAL
    unknown_type: bool = False
    died: bool = False


def starts(one: Claim) -> bool:
    """Say whether the handler is called."""
    return KINDS[one.job_type].known and not one.cancel_requested


def ending(state: State, one: Claim, does: Does) -> Ending:
    """Return what this attempt leads to."""
    kind = KINDS[one.job_type]
    if not kind.known:
        return _unknown(state, one)
    if one.cancel_requested or does is Does.CANCELS:
        return Ending(Status.CANCELED, AttemptEnd.CANCELED)
    if does is Does.DIES:
        return _death(one, kind)
    if does is Does.COMPLETES:
        return Ending(Status.COMPLETED, AttemptEnd.RETRIED)
    if does is Does.SNOOZES:
        return Ending(Status.PENDING, AttemptEnd.SNOOZED, delay=SNOOZE, refund=1)
    if does is Does.LOSES_ITS_LEASE:
        return Ending(Status.PENDING, AttemptEnd.RELEASED, refund=1)
    if does is not Does.GIVES_UP and one.attempts < kind.max_attempts:
        delay = ASKED_DELAY if does is Does.ASKS_FOR_A_DELAY else backoff(one.attempts)
        return Ending(Status.PENDING, AttemptEnd.RETRIED, delay=delay)
    reason = DeadReason.FATAL if does is Does.GIVES_UP else DeadReason.EXHAUSTED
    if kind.dead_letter:
        return Ending(Status.DLQ, AttemptEnd.DEAD_LETTERED, reason=reason)
    return Ending(Status.FAILED, AttemptEnd.FAILED)


def _death(one: Claim, kind: Kind) -> Ending:
    """Return what the death of the isolated process leads to; the third death is the last."""
    reason = DeadReason.POISON if one.deaths == 2 else DeadReason.STALE
    if one.deaths < 2 and one.attempts < kind.max_attempts:
        delay = backoff(one.attempts)
        return Ending(Status.PENDING, AttemptEnd.RESCUED, delay=delay, died=True)
    status = Status.DLQ if kind.dead_letter else Status.FAILED
    return Ending(status, AttemptEnd.RESCUED, reason=reason, died=True)


def backoff(attempt: int) -> Seconds:
    """Return the wait after this attempt: a minute, doubled each time."""
    return 60 << (attempt - 1)


def _unknown(state: State, one: Claim) -> Ending:
    """Hand the job back with a growing delay, until the grace for unknown types is over."""
    parked = [
        ended.at
        for ended in state.history
        if ended.unknown_type and (ended.job_id, ended.series) == (one.job_id, one.series)
    ]
    remaining = int(unknown_type_grace_seconds()) - (state.now - min(parked, default=state.now))
    if remaining <= 0:
        reason = DeadReason.UNKNOWN_TYPE
        return Ending(Status.DLQ, AttemptEnd.DEAD_LETTERED, reason=reason)
    delay = min(5 * 2 ** len(parked), 300, remaining)
    return Ending(Status.PENDING, AttemptEnd.RELEASED, delay=delay, refund=1, unknown_type=True)


@dataclass(frozen=True)
class Settled:
    """What a worker is told: the new statuses of its jobs, and the claims that were stale."""

    statuses: dict[UUID, Status]
    stale: set[int]


def settle(state: State, endings: Sequence[tuple[Claim, Ending]]) -> Settled:
    """Write these endings; of two for one claim the first counts, a stale claim changes nothing."""
    settled = Settled({}, set())
    for one, ends in endings:
        job = state.held(one.job_id, one.lease_token)
        if job is not None:
            _finish(state, job, one, ends)
            settled.statuses[job.job_id] = job.status
        elif state.held(one.job_id, -one.lease_token) is None:
            settled.stale.add(one.lease_token)
    return settled


def _finish(state: State, job: Job, one: Claim, ends: Ending) -> None:
    canceled = ends.status is Status.PENDING and job.cancel_requested
    state.move(job, Status.CANCELED if canceled else ends.status)
    job.attempts -= ends.refund
    job.deaths += ends.died
    job.token = -job.token
    if job.status is Status.PENDING:
        job.worker = None
        if ends.end is not AttemptEnd.RELEASED or ends.delay:
            # A job that is given back without a delay keeps its place.
            job.scheduled = state.now + ends.delay
    if job.status is Status.DLQ:
        state.bury(job, ends.reason)
    if job.status is not Status.COMPLETED:
        end = AttemptEnd.CANCELED if canceled and not ends.died else ends.end
        unknown = ends.unknown_type and not canceled
        state.keep(job.job_id, one.series, one.attempts, end, unknown_type=unknown)
    if job.status is not Status.PENDING:
        state.count(job, job.status.value)
    elif ends.end is AttemptEnd.RETRIED or ends.died:
        state.count(job, "retried")


def release(state: State, claims: Sequence[Claim]) -> list[UUID]:
    """Give back claims whose handlers never started; canceled jobs end."""
    released = []
    for one in claims:
        job = state.held(one.job_id, one.lease_token)
        if job is not None:
            canceled = job.cancel_requested
            state.move(job, Status.CANCELED if canceled else Status.PENDING)
            job.attempts -= 1
            job.token = 0
            job.worker = None
            end = AttemptEnd.CANCELED if canceled else AttemptEnd.RELEASED
            state.keep(job.job_id, one.series, one.attempts, end)
            if canceled:
                state.count(job, "canceled")
            released.append(job.job_id)
    return released
