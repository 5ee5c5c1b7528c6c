"""The log lines of the queue's events, through the standard library's logging."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from interfaces.log_lines import Line, write_line

_log = logging.getLogger("jobs")
# The logger of failed attempts, whose lines have message and traceback.
FAILURES = "jobs.attempts"
_failures = logging.getLogger(FAILURES)


class FinishedAttempt(NamedTuple):
    """The fields of the line of an attempt: the same, however it ended."""

    job_type: str
    job_id: str
    tenant_id: int
    category: str
    correlation_id: str
    attempt: int
    outcome: str
    status: str | None
    error_class: str | None
    wait_s: float
    run_s: float
    worker_id: str


def log(event: str, fields: Mapping[str, Any], *, problem: bool) -> None:
    """Write one line; problems as warnings."""
    write_line(_log, logging.WARNING if problem else logging.INFO, event, fields)


@dataclass(frozen=True)
class Lines:
    """The message of a log record that stands for many lines, one for each of `attempts`.

    A formatter that knows it writes each as it writes a `Line`.
    """

    event: str
    attempts: Sequence[FinishedAttempt]

    def __str__(self) -> str:
        return "\n".join(str(Line(self.event, one._asdict())) for one in self.attempts)


def log_many(event: str, attempts: Sequence[FinishedAttempt]) -> None:
    """Write many lines as one record: a record for each would cost more than running its job."""
    if attempts:
        _log.info(Lines(event, attempts))


def log_failure(fields: Mapping[str, Any], *, final: bool) -> None:
    """Write a failed attempt: a warning, or an error where the job is not tried again."""
    level = logging.ERROR if final else logging.WARNING
    write_line(_failures, level, "job.attempt_failed", fields)
