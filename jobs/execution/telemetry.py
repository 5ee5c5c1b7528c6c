"""The log lines of the queue's events, through the standard library's logging."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from interfaces.log_lines import write_line
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

    Only formatters that say so by an attribute `writes_lines` get one, and write each as a `Line`.
    """

    event: str
    attempts: FinishedAttempts


def log_many(event: str, attempts: FinishedAttempts) -> None:
    """Write a line for each; as one record where possible, which costs less than running its job."""
    if not attempts or not _log.isEnabledFor(logging.INFO):
        return
    if all(getattr(one.formatter, "writes_lines", False) for one in _handlers_of(_log)):
        _log.info(Lines(event, attempts))
        return
    for fields in fields_of(attempts):
        write_line(_log, logging.INFO, event, fields)


def _handlers_of(logger: logging.Logger | None) -> Iterator[logging.Handler]:
    """Yield the handlers that the logger's records reach."""
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None


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
