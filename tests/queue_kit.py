"""Helpers that most of the queue's tests need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch
from uuid import UUID

from django.db import connection
from uuid_utils.compat import uuid7

from jobs.engine.claim import Claim, claim
from jobs.engine.clock import database_now, stopped_at
from jobs.engine.counters import fold_counters
from jobs.engine.current_job import CurrentJob, reset_current_job, set_current_job
from jobs.engine.fair_share import FairShare
from jobs.engine.lease import WorkerInfo, note_running, register
from jobs.engine.outcomes import Failure, Outcome, Settlement, SettleReport
from jobs.engine.settle import settle
from jobs.execution.context import JobContext, Signals
from jobs.execution.executor import execute
from jobs.models import Attempt, ConcurrencyLock, DeadLetterQueue, JobMinute, JobQueue
from jobs.operations import dead_letters as dead_letter_operations
from tenants.scope import all_firms

FAILURE = Failure("ValueError", "it broke", "Traceback …", "0123456789abcdef")


class RunningJob(NamedTuple):
    """A job for code that runs as its handler."""

    job_id: UUID
    firm_id: int


@contextmanager
def as_current_job(job: CurrentJob) -> Iterator[None]:
    """Run the code in the block as part of `job`'s handler."""
    outer = set_current_job(job)
    try:
        yield
    finally:
        reset_current_job(outer)


def row(job_id: UUID) -> JobQueue:
    """Return the job as it is stored."""
    with all_firms("test"):
        found: JobQueue = JobQueue.objects.get(pk=job_id)
        return found


def rows(model: type[Any]) -> list[Any]:
    """Return every row of a firm-owned table."""
    with all_firms("test"):
        return list(model.objects.order_by("pk"))


def attempts() -> list[Attempt]:
    return rows(Attempt)


def dead_letters() -> list[DeadLetterQueue]:
    return rows(DeadLetterQueue)


def escalate_without_notice(letter_id: UUID, reason: str) -> None:
    """Escalate the dead letter without enqueuing the job that sends the notice."""
    with patch.object(dead_letter_operations, "enqueue"):
        dead_letter_operations.escalate(letter_id, reason)


def locks() -> list[ConcurrencyLock]:
    return rows(ConcurrencyLock)


def counted(word: str) -> int:
    """Return how often the counters of all minutes counted `word`."""
    return sum(getattr(minute, word) for minute in minutes())


def minutes() -> list[JobMinute]:
    """Return the counters of all minutes."""
    while fold_counters():
        pass
    return rows(JobMinute)


def change(job_id: UUID, **columns: Any) -> None:
    """Write columns of a job, to bring it into a state that takes many operations to reach."""
    with all_firms("test"):
        JobQueue.objects.filter(pk=job_id).update(**columns)


def table_rows(sql: str, params: list[Any] | None = None) -> list[tuple[Any, ...]]:
    """Run a statement; return its rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params or [])
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def new_worker() -> UUID:
    """Register a worker; return its id."""
    worker_id = uuid7()
    register(
        WorkerInfo(
            worker_id=worker_id,
            host="test",
            pid=1,
            version="0",
            categories=(),
            job_types=(),
            concurrency=1,
        )
    )
    return worker_id


def take(limit: int = 10, *, worker_id: UUID | None = None, **filters: Any) -> list[Claim]:
    """Claim jobs with a new fair share."""
    return claim(worker_id or uuid7(), limit, FairShare(), **filters)


def take_one(worker_id: UUID | None = None) -> Claim:
    """Claim the only job."""
    (only,) = take(2, worker_id=worker_id)
    return only


def take_started(worker_id: UUID) -> Claim:
    """Claim the only job, and note that its handler starts."""
    only = take_one(worker_id)
    assert note_running(worker_id, only.job_id.bytes)
    return only


def finish(held: Claim, outcome: Outcome, ran_seconds: float | None = 0.5) -> SettleReport:
    """Settle one attempt."""
    return settle([Settlement(held, outcome, ran_seconds)])


def context(held: Claim, signals: Signals | None = None) -> JobContext:
    """Return the context of this claim's handler."""
    return JobContext(held, signals or Signals())


def perform(held: Claim) -> Outcome:
    """Run the claimed job's handler."""
    return execute(held, rng=Random(1), signals=Signals())


def work_off() -> Outcome:
    """Claim the only job, run its handler and settle it; return the outcome."""
    held = take_one()
    outcome = perform(held)
    finish(held, outcome)
    return outcome


@contextmanager
def later(seconds: float) -> Iterator[datetime]:
    """Stop the database's clock at `seconds` from now."""
    moment = database_now() + timedelta(seconds=seconds)
    with stopped_at(moment):
        yield moment
