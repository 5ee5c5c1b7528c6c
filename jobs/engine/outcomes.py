"""How attempts end: a closed set of outcomes, and what is kept of the error of a failed one."""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from interfaces.redaction import redact
from jobs.engine.claim import Claim
from jobs.engine.locks import ReleasedCapacity
from jobs.engine.tracebacks import format_error
from jobs.states import DeadReason, Status


@dataclass(frozen=True)
class Failure:
    """What is stored of an error: redacted and cut to size."""

    error_class: str
    message: str
    traceback: str = ""
    fingerprint: str = ""


@dataclass(frozen=True)
class Completed:
    """The handler returned; `text` is its result as JSON, which the check of the result encoded."""

    result: Any
    text: str = field(default="", compare=False)


@dataclass(frozen=True)
class Retry:
    """The attempt failed; try again in `delay_seconds`. `died`: its process ended with it."""

    delay_seconds: float
    failure: Failure
    died: bool = False


@dataclass(frozen=True)
class Snoozed:
    """Run again at `until`, or in `delay_seconds`; the attempt is not counted.

    If that is now or earlier, the job runs again in one second.
    """

    until: datetime | None = None
    delay_seconds: float = 0.0
    message: str = ""


@dataclass(frozen=True)
class Canceled:
    """The handler, or a cancel request, stopped the job."""

    message: str


@dataclass(frozen=True)
class DeadLettered:
    """No further attempt; an operator decides. `to_review` False ends the job `failed` instead.

    `died`: the process of the attempt ended with it.
    """

    reason: DeadReason
    failure: Failure
    to_review: bool = True
    died: bool = False


@dataclass(frozen=True)
class Released:
    """Not run, or not by this worker: back to pending; the attempt is not counted.

    It is due in `delay_seconds`; with 0, its due time stays as it was.
    """

    reason: str
    delay_seconds: float = 0.0


Outcome = Completed | Retry | Snoozed | Canceled | DeadLettered | Released


class Settlement(NamedTuple):
    """The outcome of one claim; `ran_seconds` None when the handler never started.

    `ended_at` is when the handler ended, by the monotonic clock; None means now.
    """

    claim: Claim
    outcome: Outcome
    ran_seconds: float | None
    ended_at: float | None = None

    def begun_ago(self, now: float) -> float | None:
        """Return how many seconds before `now`, by the monotonic clock, the handler began."""
        if self.ran_seconds is None or self.ended_at is None:
            return self.ran_seconds
        return self.ran_seconds + now - self.ended_at


@dataclass
class SettleReport:
    """The new status of each settled job, and the stale claims.

    `before` has the status, by token, of jobs that an earlier write of the same claim settled.
    `locked` are claims in force that another transaction keeps from being settled: try again.
    """

    statuses: dict[UUID, Status] = field(default_factory=dict)
    before: dict[int, Status] = field(default_factory=dict)
    stale: list[Claim] = field(default_factory=list)
    locked: list[Claim] = field(default_factory=list)
    released_capacity: ReleasedCapacity = field(default_factory=ReleasedCapacity)

    def add(self, other: SettleReport) -> None:
        """Add the report of another part of the batch."""
        self.statuses |= other.statuses
        self.before |= other.before
        self.stale += other.stale
        self.locked += other.locked
        self.released_capacity |= other.released_capacity


MESSAGE_LIMIT = 2_000
TRACEBACK_LIMIT = 16_000

# Ids, numbers and quoted values differ between two occurrences of the same failure.
_VARIABLE = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|\b\w*\d\w*(?:\.\d+)?|'[^']*'|\"[^\"]*\"")


def failure_of(error: BaseException, job_type: str) -> Failure:
    """Describe `error`, raised by a handler of `job_type`; never raises, whatever its class does."""
    error_class, message = class_path(error), message_of(error)
    location = _read(lambda: _location(error), "")
    return Failure(
        error_class=error_class,
        message=message,
        traceback=_read(lambda: redact(_ends(_formatted(error)), TRACEBACK_LIMIT), ""),
        fingerprint=fingerprint(job_type, error_class, location, message),
    )


def message_of(error: BaseException) -> str:
    """Return the error's text as it is stored: redacted and cut to size."""
    return _read(lambda: redact(str(error), MESSAGE_LIMIT), "the error has no readable message")


def class_path(error: BaseException) -> str:
    """Return the name of the error's class, with its module unless it is a built-in."""
    return _read(lambda: redact(_class_path(type(error)), 200), "an error without a name")


def _class_path(kind: type[BaseException]) -> str:
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


def fingerprint(job_type: str, error_class: str, location: str, message: str) -> str:
    """Return 16 hex digits: the same for the same failure, whatever ids and numbers it names."""
    constant = _VARIABLE.sub("#", message)
    text = "\n".join((job_type, error_class, location, constant))
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()


def _read(part: Callable[[], str], otherwise: str) -> str:
    """Return what `part` returns; `otherwise` if the code of the error's class raises."""
    try:
        return part()
    except BaseException:  # noqa: BLE001 - a broken __str__ must not hide the failure itself
        return otherwise


def _formatted(error: BaseException) -> str:
    try:
        return format_error(error)
    except BaseException:  # noqa: BLE001 - a broken __str__ must not hide where it was raised
        return "".join(traceback.format_tb(error.__traceback__))


def _ends(text: str) -> str:
    """Keep the beginning of a long traceback and, above all, its end."""
    if len(text) <= TRACEBACK_LIMIT - 100:
        return text
    head = TRACEBACK_LIMIT // 4
    tail = TRACEBACK_LIMIT - head - 200
    return f"{text[:head]}\n… {len(text) - head - tail} characters left out …\n{text[-tail:]}"


def _location(error: BaseException) -> str:
    last = error.__traceback__
    if last is None:
        return ""
    while last.tb_next is not None:
        last = last.tb_next
    code = last.tb_frame.f_code
    return f"{code.co_filename}:{code.co_name}"
