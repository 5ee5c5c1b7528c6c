"""Gives back claims whose handlers did not start; the attempt is not counted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from jobs.engine.claim import Claim
from jobs.engine.end_attempts import end_attempts
from jobs.engine.in_flight import InFlightJob, lock_in_flight
from jobs.engine.outcomes import Failure
from jobs.engine.transactions import in_transaction
from jobs.engine.transition import Transition
from jobs.states import AttemptEnd, Status

LOST_ANSWER = "the answer to its claim was lost"


def release(claims: Sequence[Claim], reason: str) -> list[UUID]:
    """Put these jobs back to pending; return the ids of those whose claims were still in force.

    The caller admits their capacity afterwards (`ReleasedCapacity.of_jobs`).
    """
    if not claims:
        return []
    return in_transaction(lambda: _release(claims, reason))


def release_lost(worker_id: UUID, known_tokens: Collection[int]) -> list[InFlightJob]:
    """Put back the claims of this worker whose answer it never got; return their jobs.

    `known_tokens` are the tokens of all claims it knows. Call it from the thread that claims. The
    caller admits the capacity afterwards (`ReleasedCapacity.of_jobs`).
    """
    lost: list[InFlightJob] = []
    while batch := in_transaction(lambda: _release_batch(worker_id, known_tokens)):
        lost += batch
    return lost


def _release_batch(worker_id: UUID, known_tokens: Collection[int]) -> list[InFlightJob]:
    lost = lock_in_flight(worker_id, except_tokens=known_tokens)
    _release(lost, LOST_ANSWER)
    return lost


def _release(jobs: Sequence[Claim | InFlightJob], reason: str) -> list[UUID]:
    failure = Failure("Released", reason)
    transitions = [
        Transition(job, Status.PENDING, AttemptEnd.RELEASED, failure, refund=1) for job in jobs
    ]
    return [one.job.job_id for one in end_attempts(transitions, by_worker=False)]
