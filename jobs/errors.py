"""The queue's errors, as one tree.

JobError
  EnqueueError
    PayloadInvalid       the payload fails its checks; `errors` lists each fault
      UnknownJobType     no handler is registered under this name
  ArgumentsInvalid       other arguments fail their checks; `errors` lists each fault
    ScheduleInvalid      a schedule
    LimitInvalid         a pause or rate limit
    BulkInvalid          a bulk run
    LegacyImportInvalid  the import of an older system's jobs
    EditInvalid          the edit of a waiting job
    FilterInvalid        a filter of a list
      SearchInvalid      a qualifier of a search
    LockInvalid          a user's lock
    EndpointInvalid      a notification endpoint
  HandlerError           what a handler raises on purpose
    Retryable            try again later; any other exception counts as this
    Fatal                never try again: dead letter at once
    Snooze               run again later without using an attempt
    Cancel               stop; the job ends canceled
  JobTimeout             raised inside a handler that outlived its type's timeout
  LeaseLost              the job is no longer this worker's: the write was refused
  TransactionLeftOpen    a handler ended with a transaction open: what it wrote was rolled back
  WrongPlace             the call cannot work in this context
  NotSettled             the job was not settled within the timeout
  WrongState             the job's status does not allow the operation
    KeyHeld              a live job holds the same idempotency key
  UnknownJob             no such job, dead letter, lock or limit in scope
  ReasonMissing          the operation needs a reason and got none
  DatabaseInUse          a benchmark would disturb other work
  BenchmarkFailed        a benchmark has no result
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from interfaces.moments import YEARS, is_in_range
from interfaces.redaction import quotable

# A hundred years: adding a longer wait to a time can exceed what databases and Python represent.
LONGEST_WAIT_SECONDS = 100 * 366 * 86_400


class JobError(Exception):
    """Something went wrong in the queue; `code` names the error to programs."""

    code = "job_error"

    def __init_subclass__(cls, *, code: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.code = code or cls.code


class EnqueueError(JobError, code="enqueue_error"):
    """The job was not stored."""


@dataclass(frozen=True)
class Fault:
    """One fault of a payload, or of another argument."""

    field: str  # empty: a fault of the whole
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class _Faults:
    """Lists field, code and message of each fault as `errors`."""

    faults: list[Fault]

    @property
    def errors(self) -> list[dict[str, str]]:
        """The faults as plain dictionaries."""
        return [asdict(fault) for fault in self.faults]


class PayloadInvalid(EnqueueError, _Faults, code="payload_invalid"):
    """The payload fails its checks; `errors` lists field, code and message of each fault."""

    def __init__(self, job_type: str, faults: list[Fault]) -> None:
        self.job_type = job_type
        self.faults = faults
        super().__init__(f"{job_type} refused: {'; '.join(str(fault) for fault in faults)}")


class UnknownJobType(PayloadInvalid, code="unknown_job_type"):
    """No handler is registered under this name; `suggestions` are similar names, if sought."""

    def __init__(self, job_type: str, suggestions: list[str] | None = None) -> None:
        hint = ""
        if suggestions:
            hint = f"; did you mean {' or '.join(suggestions)}?"
        elif suggestions is not None:
            hint = "; its function must be in `job_handlers.py` of an app in INSTALLED_APPS"
        job_type = quotable(job_type)
        message = f"No handler registered for job_type: {job_type}{hint}"
        super().__init__(job_type, [Fault("job_type", "unknown_type", message)])


class ArgumentsInvalid(JobError, _Faults, code="arguments_invalid"):
    """Arguments fail their checks; `errors` lists field, code and message of each fault."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults
        super().__init__("; ".join(str(fault) for fault in faults))


class ScheduleInvalid(ArgumentsInvalid, code="schedule_invalid"):
    """The schedule fails its checks."""


class LimitInvalid(ArgumentsInvalid, code="limit_invalid"):
    """The pause or rate limit fails its checks."""


class BulkInvalid(ArgumentsInvalid, code="bulk_invalid"):
    """The bulk run fails its checks."""


class LegacyImportInvalid(ArgumentsInvalid, code="legacy_import_invalid"):
    """The older system's table, or the job type for its rows, fails the import's checks."""


class EditInvalid(ArgumentsInvalid, code="edit_invalid"):
    """The edit of a waiting job fails its checks; faults of the payload raise PayloadInvalid."""


class FilterInvalid(ArgumentsInvalid, code="filter_invalid"):
    """A filter of a list has no valid value."""


class SearchInvalid(FilterInvalid, code="search_invalid"):
    """A qualifier of a search is unknown or has no valid value."""


class LockInvalid(ArgumentsInvalid, code="lock_invalid"):
    """The key, the time or the holder of a user's lock fails its checks."""


class EndpointInvalid(ArgumentsInvalid, code="endpoint_invalid"):
    """The notification endpoint fails its checks."""


def _check_wait(name: str, seconds: float | None) -> None:
    """Refuse a wait that cannot be added to a time.

    Raises:
        TypeError: the wait cannot be compared with a number, or is a boolean.
        ValueError: the wait is NaN, or is longer than LONGEST_WAIT_SECONDS.
    """
    no_number = TypeError(f"{name} must be a number of seconds, not {type(seconds).__name__}")
    if isinstance(seconds, bool):
        raise no_number
    try:
        is_short = seconds is None or seconds <= LONGEST_WAIT_SECONDS
    except TypeError:
        raise no_number from None
    except ArithmeticError:  # a Decimal NaN
        is_short = False
    if not is_short:
        raise ValueError(f"{name} must be a number of at most {LONGEST_WAIT_SECONDS:,} seconds")


def _check_until(until: object) -> None:
    """Refuse a value that is no time, or a time that the databases cannot store."""
    if not isinstance(until, datetime):
        raise TypeError(f"Snooze(until=) takes an aware datetime, not {type(until).__name__}")
    if until.utcoffset() is None:
        raise ValueError("Snooze(until=) takes an aware datetime")
    if not is_in_range(until):
        raise ValueError(f"Snooze(until=) takes {YEARS}, not {until.year}")


class HandlerError(JobError, code="handler_error"):
    """Raised by a handler to say how its attempt ended."""


class Retryable(HandlerError, code="retryable"):
    """The attempt failed and may be tried again; `retry_after` (seconds) overrides the backoff."""

    def __init__(self, message: str = "", *, retry_after: float | None = None) -> None:
        _check_wait("retry_after", retry_after)
        super().__init__(message)
        self.retry_after = retry_after


class Fatal(HandlerError, code="fatal"):
    """Trying again cannot help: the job is dead-lettered at once."""


class Snooze(HandlerError, code="snooze"):
    """Run the job again at `until`, or in `seconds`; the attempt is not counted.

    A time that has already come counts as in one second.
    """

    def __init__(
        self, message: str = "", *, until: datetime | None = None, seconds: float | None = None
    ) -> None:
        if (until is None) == (seconds is None):
            raise ValueError("Snooze takes either until or seconds")
        _check_wait("seconds", seconds)
        if until is not None:
            _check_until(until)
        super().__init__(message)
        self.until = until
        self.seconds = seconds


class Cancel(HandlerError, code="cancel"):
    """Stop here; the job ends canceled."""


class JobTimeout(BaseException):  # so that a handler's `except Exception` lets it through
    """The handler ran longer than its type's timeout."""


class LeaseLost(JobError, code="lease_lost"):
    """The worker no longer has the job; nothing was written, and the handler must stop."""


class TransactionLeftOpen(JobError, code="transaction_left_open"):
    """The handler ended with a transaction open on its connection; its writes were rolled back."""


_DECISIVE = (LeaseLost, Fatal, Cancel, Snooze, Retryable)  # the first found in a group decides


def deciding(error: BaseException, *, lease_lost: bool = True) -> BaseException:
    """Return the error in a group (such as a TaskGroup raises) that says how the attempt ended.

    If the group also contains errors that are none of these, only LeaseLost and Fatal decide;
    without one, the group itself is the failure. `lease_lost=False` treats LeaseLost as any other
    error.
    """
    decisive = _DECISIVE if lease_lost else _DECISIVE[1:]
    beside_others = decisive[: decisive.index(Fatal) + 1]
    # An exception class's own code may raise, and nested groups may exceed the recursion limit.
    with suppress(BaseException):
        if isinstance(error, BaseExceptionGroup):
            kinds = decisive if error.split(decisive)[1] is None else beside_others
            found: BaseException = next(filter(None, map(error.subgroup, kinds)), error)
            while isinstance(found, BaseExceptionGroup) and found is not error:
                found = found.exceptions[0]
            return found
    return error


class WrongPlace(JobError, code="wrong_place"):
    """The call cannot work in this context: a transaction, a handler, a coroutine."""


class NotSettled(JobError, TimeoutError, code="not_settled"):
    """The job was not settled within the timeout; the job itself continues."""


class WrongState(JobError, code="wrong_state"):
    """The job's status does not allow this."""


class KeyHeld(WrongState, code="key_held"):
    """A live job holds the same idempotency key."""

    def __init__(self, holder: UUID | None) -> None:
        super().__init__(f"live job {holder} has the same idempotency key")
        self.holder = holder


class UnknownJob(JobError, code="not_found"):
    """There is no such job, dead letter or lock in scope."""


class ReasonMissing(JobError, code="reason_missing"):
    """The operation needs a reason."""

    def __init__(self) -> None:
        super().__init__("a reason is required")


class DatabaseInUse(JobError, code="database_in_use"):
    """Others use this queue: their work and the benchmark would slow each other down."""


class BenchmarkFailed(JobError, code="benchmark_failed"):
    """The benchmark has no result."""
