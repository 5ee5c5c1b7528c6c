"""The reference model of operations; one that is refused raises an error and changes nothing."""

from __future__ import annotations

from uuid import UUID

from jobs.errors import KeyHeld, UnknownJob, WrongState
from jobs.states import RETRYABLE, Resolution, Status
from tests.properties.queue_machine.state import Job, Letter, State

Place = tuple[UUID, int]


def cancel(state: State, job_id: UUID) -> bool:
    """End a waiting job, or ask a running one to stop; return whether the job has ended."""
    job = _job(state, job_id)
    if job.in_flight:
        if not job.cancel_requested:
            # A repeated request changes nothing.
            job.cancel_requested = True
            job.touched = state.now
        return False
    if job.status is not Status.PENDING:
        raise WrongState
    state.move(job, Status.CANCELED)
    job.cancel_requested = True
    state.count(job, "canceled")
    return True


def retry(state: State, job_id: UUID) -> UUID:
    """Start a new series of the job, and return its id."""
    job = _job(state, job_id)
    _restart(state, job)
    letter = state.letters.get((job_id, job.series - 1))
    if letter is not None and letter.open:
        _decide(state, letter, Resolution.REPROCESSED)
    return job_id


def reprocess(state: State, place: Place, priority: int | None) -> UUID:
    """Start a new series of a dead letter's job, and return its id."""
    letter = _open_letter(state, place)
    job = _job(state, place[0])
    _restart(state, job, priority)
    _decide(state, letter, Resolution.REPROCESSED)
    return job.job_id


def discard(state: State, place: Place) -> None:
    """Decide that a dead letter's job is not tried again."""
    _decide(state, _open_letter(state, place), Resolution.DISCARDED)
    _job(state, place[0]).status = Status.FAILED


def escalate(state: State, place: Place) -> None:
    """Ask a person to decide; only once for each dead letter."""
    letter = _open_letter(state, place)
    if letter.resolution is Resolution.ESCALATED:
        raise WrongState
    _decide(state, letter, Resolution.ESCALATED)


def _job(state: State, job_id: UUID) -> Job:
    if job_id not in state.jobs:
        raise UnknownJob
    return state.jobs[job_id]


def _open_letter(state: State, place: Place) -> Letter:
    letter = state.letters[place]
    if not letter.open:
        raise WrongState
    return letter


def _decide(state: State, letter: Letter, resolution: Resolution) -> None:
    letter.resolution = resolution
    letter.reviewed = state.now


def _restart(state: State, job: Job, priority: int | None = None) -> None:
    if job.status not in RETRYABLE:
        raise WrongState
    holder = state.holder_of(job.firm_id, job.key)
    if holder is not None:
        raise KeyHeld(holder)
    state.move(job, Status.PENDING)
    job.series += 1
    job.attempts = job.token = 0
    # A job that has killed two workers runs in quarantine from its first attempt on.
    job.deaths = min(job.deaths, 2)
    job.worker = None
    job.cancel_requested = False
    job.scheduled = state.now
    job.priority = job.priority if priority is None else priority
    if job.expires is not None and job.expires <= state.now:
        job.expires = None
    if job.lock_key is not None:
        state.admit([(job.firm_id, job.lock_key)])
