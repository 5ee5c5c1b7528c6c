"""The log lines of the queue's events, through the standard library's logging."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from interfaces.log_lines import Line, write_line
from jobs.engine.claim import Claim

_log = logging.getLogger("jobs")
# The logger of failed attempts, whose lines have message and traceback.
FAILURES = "jobs.attempts"
_failures = logging.getLogger(FAILURES)
# The logger of what handlers note.
_notes = logging.getLogger("jobs.handlers")


class AttemptKind(NamedTuple):
    """What the lines of many finished attempts have in common."""

    job_type: str
    tenant_id: int
    category: str
    attempt: int
    outcome: str
    status: str | None
    error_class: str | None
    worker_id: str


class FinishedAttempt(NamedTuple):
    """What the line of one attempt says beyond its kind."""

    job_id: str
    correlation_id: str
    wait_s: float
    run_s: float


# By kind: to write, count and measure attempts one by one would cost more than running their jobs.
FinishedAttempts = Mapping[AttemptKind, Sequence[FinishedAttempt]]


def fields_of(attempts: FinishedAttempts) -> Iterator[dict[str, Any]]:
    """Yield the fields of each line: the same, however the attempt ended."""
    for kind, same in attempts.items():
        shared = kind._asdict()
        for one in same:
            yield {**shared, **one._asdict()}


def log(event: str, fields: Mapping[str, Any], *, problem: bool) -> None:
    """Write one line; problems as warnings."""
    write_line(_log, logging.WARNING if problem else logging.INFO, event, fields)


@dataclass(frozen=True)
class Lines:
    """The message of a log record that stands for many lines, one for each of `attempts`.

    A formatter that knows it writes each as it writes a `Line`.
    """

    event: str
    attempts: FinishedAttempts

    def __str__(self) -> str:
        return "\n".join(str(Line(self.event, fields)) for fields in fields_of(self.attempts))


def log_many(event: str, attempts: FinishedAttempts) -> None:
    """Write many lines as one record: a record for each would cost more than running its job."""
    if attempts:
        _log.info(Lines(event, attempts))


def log_note(claim: Claim, text: str) -> None:
    """Write what a handler notes about its attempt."""
    fields = {
        "job_type": claim.job_type,
        "tenant_id": claim.firm_id,
        "attempt": claim.attempts,
        "job_id": str(claim.job_id),
        "correlation_id": claim.correlation_id,
        "text": text,
    }
    write_line(_notes, logging.INFO, "job.log", fields)


def log_failure(fields: Mapping[str, Any], *, final: bool) -> None:
    """Write a failed attempt: a warning, or an error where the job is not tried again."""
    level = logging.ERROR if final else logging.WARNING
    write_line(_failures, level, "job.attempt_failed", fields)
