"""The log lines of the queue's events, through the standard library's logging.

The lines of attempts that ended together are written, counted and measured by kind.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from interfaces.log_lines import write_line
from jobs.engine.claim import Claim, InFlightJob
from jobs.states import Status

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


# By kind, because writing, counting and measuring them one by one would cost more than the jobs.
FinishedAttempts = Mapping[AttemptKind, Sequence[FinishedAttempt]]


class AttemptsByKind(dict[AttemptKind, list[FinishedAttempt]]):
    """Finished attempts by kind, as they are added."""

    def __init__(self) -> None:
        super().__init__()
        # The worker's id and its text, computed once: there is hardly ever more than one worker.
        self._last: tuple[UUID | None, str] = None, ""
        self._same: dict[tuple[object, ...], list[FinishedAttempt]] = {}

    def add(
        self,
        job: Claim | InFlightJob,
        outcome: str,
        status: Status | None,
        error_class: str | None,
        ran_seconds: float | None,
    ) -> None:
        """Add an attempt of this job."""
        worker_id, worker = self._last
        if job.worker_id is not worker_id:
            worker = str(job.worker_id)
            self._last = job.worker_id, worker
        key = (
            job.job_type,
            job.firm_id,
            job.category,
            job.attempts,
            outcome,
            status,
            error_class,
            worker,
        )
        same = self._same.get(key)
        if same is None:
            text = None if status is None else str(status)
            kind = AttemptKind(*key[:5], text, error_class, worker)
            same = self._same[key] = self.setdefault(kind, [])
        one = job.job_id, job.correlation_id, job.waited_seconds, ran_seconds
        same.append(_finished(*one))


def _finished(
    job_id: UUID, correlation_id: str, waited_seconds: float, ran_seconds: float | None
) -> FinishedAttempt:
    # As str(job_id) and round(…, 4) do, in a third of the time.
    return FinishedAttempt(
        orjson.dumps(job_id)[1:-1].decode(),
        correlation_id,
        int(waited_seconds * 10_000 + 0.5) / 10_000,
        int(ran_seconds * 10_000 + 0.5) / 10_000 if ran_seconds else 0.0,
    )


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

    Only formatters with an attribute `writes_lines` get one; they write each line as a `Line`.
    """

    event: str
    attempts: FinishedAttempts


def log_many(event: str, attempts: FinishedAttempts) -> None:
    """Write a line for each; by one record if possible, which costs less than running its job."""
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
    """Write a failed attempt: as a warning, or as an error if the job is not tried again."""
    level = logging.ERROR if final else logging.WARNING
    write_line(_failures, level, "job.attempt_failed", fields)
