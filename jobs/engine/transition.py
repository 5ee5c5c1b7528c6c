"""Says what each outcome of an attempt writes to the job's row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jobs.engine.json_storage import to_json
from jobs.engine.outcomes import (
    Canceled,
    Completed,
    DeadLettered,
    Failure,
    Outcome,
    Released,
    Retry,
    Snoozed,
)
from jobs.states import AttemptEnd, Status

NO_FAILURE = Failure("", "")


@dataclass(frozen=True)
class Ending:
    """An outcome in the terms of the table."""

    status: Status
    end: AttemptEnd
    failure: Failure
    error: str | None = None
    due: datetime | None = None
    delay: float | None = None
    refund: int = 0


def ending_of(outcome: Outcome) -> Ending:
    """Return what this outcome, which is no completion, writes."""
    match outcome:
        case Completed():
            raise ValueError("a completion is written as it is")
        case Retry(delay, failure, died):
            end = AttemptEnd.RESCUED if died else AttemptEnd.RETRIED
            return Ending(Status.PENDING, end, failure, error=failure.message, delay=delay)
        case Snoozed(until, delay):
            return Ending(
                Status.PENDING, AttemptEnd.SNOOZED, NO_FAILURE, due=until, delay=delay, refund=1
            )
        case Canceled(message):
            failure = Failure("Cancel", message)
            return Ending(Status.CANCELED, AttemptEnd.CANCELED, failure, error=message)
        case DeadLettered(_, failure, to_review, died):
            status = Status.DLQ if to_review else Status.FAILED
            end = AttemptEnd.DEAD_LETTERED if to_review else AttemptEnd.FAILED
            end = AttemptEnd.RESCUED if died else end
            return Ending(status, end, failure, error=failure.message)
        case Released(reason, delay):
            failure = Failure("Released", reason)
            return Ending(Status.PENDING, AttemptEnd.RELEASED, failure, delay=delay, refund=1)


def result_of(completed: Completed) -> str:
    """Return the JSON of what a handler returned."""
    # Nearly always it is nothing, and that is spelled faster than it is encoded.
    return "{}" if completed.result == {} else to_json(completed.result)
