"""What the end of an attempt changes: the job's row, its history, its dead letter, the counters."""

from __future__ import annotations

import time
from datetime import datetime
from functools import partial
from typing import NamedTuple

from jobs.engine.claim import Claim, InFlightJob
from jobs.engine.outcomes import (
    Canceled,
    Completed,
    DeadLettered,
    Failure,
    Outcome,
    Released,
    Retry,
    Settlement,
    Snoozed,
)
from jobs.engine.steps import to_json
from jobs.states import MAX_DEATHS, QUARANTINE_DEATHS, AttemptEnd, DeadReason, Status

# Otherwise a job snoozed to a past time, or for 0 seconds, would loop and fill its history.
SHORTEST_SNOOZE_SECONDS = 1.0
NO_FAILURE = Failure("", "")


class Transition(NamedTuple):
    """The end of one attempt, in terms of the tables. `delay` is used for pending jobs only."""

    job: Claim | InFlightJob
    status: Status
    # None: the attempt completed the job, and has no record of its own.
    end: AttemptEnd | None
    failure: Failure = NO_FAILURE
    # Written to the row; None keeps what is stored.
    error: str | None = None
    result: str | None = None
    # When a pending job is due: at `due` if that is in the future, else in `delay` seconds, or
    # (both None) as before.
    due: datetime | None = None
    delay: float | None = None
    refund: int = 0
    died: bool = False
    # Whether a requested cancel ends the job here.
    cancelable: bool = False
    # Reason and failure of the dead letter to open, if any.
    dead_letter: tuple[DeadReason, Failure] | None = None
    # Whether a job that is pending again counts as retried.
    retried: bool = False
    # Whether the handler started; if `begun_ago` is None, the row says when.
    started: bool = False
    begun_ago: float | None = None
    ran_seconds: float | None = None
    # What the type's breaker counts.
    outcome: Outcome | None = None

    def canceled(self) -> Transition:
        """Return the transition of the same attempt of a job whose cancel was requested."""
        end = self.end if self.end is AttemptEnd.RESCUED else AttemptEnd.CANCELED
        return self._replace(status=Status.CANCELED, end=end)


def transition_of(settlement: Settlement) -> Transition:
    """Return what this outcome changes.

    Raises:
        NotStorable: the result cannot be stored.
    """
    claim, outcome, ran_seconds, _ = settlement
    begun_ago = settlement.begun_ago(time.monotonic())
    of = partial(
        Transition,
        claim,
        started=begun_ago is not None,
        begun_ago=begun_ago,
        ran_seconds=ran_seconds,
        outcome=outcome,
    )
    again = partial(of, Status.PENDING, cancelable=True)
    match outcome:
        case Completed():
            return of(Status.COMPLETED, None, error="", result=result_json(outcome))
        case Retry(delay, failure, died):
            end = AttemptEnd.RESCUED if died else AttemptEnd.RETRIED
            return again(end, failure, failure.message, delay=delay, died=died, retried=True)
        case Snoozed(until, delay, message):
            delay = delay if delay > 0 else SHORTEST_SNOOZE_SECONDS
            failure = Failure("Snooze", message) if message else NO_FAILURE
            return again(AttemptEnd.SNOOZED, failure, due=until, delay=delay, refund=1)
        case Released(reason, delay):
            failure = Failure("Released", reason)
            # Without a delay it keeps its place among the jobs of its priority.
            return again(AttemptEnd.RELEASED, failure, delay=delay or None, refund=1)
        case Canceled(message):
            failure = Failure("Cancel", message)
            return of(Status.CANCELED, AttemptEnd.CANCELED, failure, message)
        case DeadLettered(reason, failure, to_review, died):
            status, end = Status.FAILED, AttemptEnd.FAILED
            if to_review:
                status, end = Status.DLQ, AttemptEnd.DEAD_LETTERED
            return of(
                status,
                AttemptEnd.RESCUED if died else end,
                failure,
                failure.message,
                died=died,
                dead_letter=(reason, failure) if to_review else None,
            )


def result_json(completed: Completed) -> str:
    """Return the JSON text of what a handler returned.

    Raises:
        NotStorable: the result cannot be stored.
    """
    # Encoding again could differ, because other threads may change what a handler returned.
    return completed.text or to_json(completed.result)


def is_quarantined(deaths: int) -> bool:
    """Say whether a job with this many deaths runs alone, in a process of its own.

    One death proves nothing: another job of the same process, or the machine, may have caused it.
    """
    return deaths >= QUARANTINE_DEATHS


def last_death_reason(*, deaths: int, attempts: int, max_attempts: int) -> DeadReason | None:
    """Return why another death is the last one; None when the job is tried again.

    `deaths` counts those before this one; `attempts` includes the one that died.
    """
    if deaths + 1 >= MAX_DEATHS:
        return DeadReason.POISON
    return DeadReason.STALE if attempts >= max_attempts else None
