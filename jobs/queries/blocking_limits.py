"""The limits that block one job, read past the reader's scope: for `jobs.queries.why_waiting`.

Nothing of another firm is returned: a limit for every firm is this firm's too, and only its own
jobs are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.engine import dialects
from jobs.engine.candidates import Q_KEY
from jobs.engine.dialects import Column
from jobs.engine.limit_sql import COUNTED, NOT_CLOSED, matches_pause_sql
from jobs.engine.transactions import fetch, reading
from jobs.models import JobQueue
from jobs.states import BreakerState

# Jobs ahead in a lock key's queue are counted up to this.
MAX_AHEAD = 1000


@dataclass(frozen=True)
class BlockingPause:
    """A pause that covers the job; `paused_by` is empty for a pause of every firm."""

    everywhere: bool
    category: str
    job_type: str
    reason: str
    paused_by: str
    until: datetime | None


@dataclass(frozen=True)
class BlockingRate:
    """The rate limit of the job's type; `next_at` None when a job may start now."""

    amount: int
    per_seconds: float
    next_at: datetime | None


@dataclass(frozen=True)
class BlockingBreaker:
    """The breaker that blocks the job; `probe_at` None while another job is tried."""

    fingerprint: str
    probe_at: datetime | None


def blocking_pauses(job: JobQueue) -> list[BlockingPause]:
    """Return the pauses that cover the job, the widest first."""
    dialect = dialects.current()
    rows = reading(
        lambda: fetch(
            f"""
            SELECT p.everywhere, p.category, p.job_type, p.reason, p.paused_by, p.until
            FROM jobs_pause p JOIN jobs_jobqueue q ON q.job_id = %s
            WHERE {matches_pause_sql("p", "q")}
            ORDER BY p.everywhere DESC, p.category, p.job_type
            """,
            [dialect.value(Column.UUID, job.pk)],
        )
    )
    return [
        BlockingPause(
            everywhere=bool(everywhere),
            category=category,
            job_type=job_type,
            reason=reason,
            paused_by="" if everywhere else paused_by,
            until=dialect.read_time(until),
        )
        for everywhere, category, job_type, reason, paused_by, until in rows
    ]


def blocking_breaker(job: JobQueue) -> BlockingBreaker | None:
    """Return the breaker that blocks the job; None if none does, or the job is its probe."""
    dialect = dialects.current()
    rows = reading(
        lambda: fetch(
            f"""
            SELECT b.state, b.probe_at, b.fingerprint FROM jobs_circuitbreaker b
            WHERE {NOT_CLOSED} AND b.firm_id = %s AND b.job_type = %s
              AND (b.probe_job_id IS NULL OR b.probe_job_id <> %s)
            """,
            [job.firm_id, job.job_type, dialect.value(Column.UUID, job.pk)],
        )
    )
    if not rows:
        return None
    state, probe_at, fingerprint = rows[0]
    probing = state == BreakerState.HALF_OPEN
    return BlockingBreaker(fingerprint, None if probing else dialect.read_time(probe_at))


def count_against_cap(firm_id: int) -> int:
    """Return how many jobs of the firm count against its cap."""
    rows = reading(
        lambda: fetch(
            f"SELECT count(*) FROM jobs_jobqueue q WHERE {COUNTED} AND q.firm_id = %s", [firm_id]
        )
    )
    return int(rows[0][0])


def blocking_rate(job: JobQueue, now: datetime) -> BlockingRate | None:
    """Return the rate limit of the job's type in its firm, if any."""
    dialect = dialects.current()
    rows: list[tuple[Any, ...]] = reading(
        lambda: fetch(
            f"""
            SELECT l.amount, l.per_seconds, b.tokens,
                {dialect.after_sql("b.refilled_at", "(1 - b.tokens) * l.per_seconds / l.amount")}
            FROM jobs_ratelimit l
            LEFT JOIN jobs_ratebucket b ON b.firm_id = %s AND b.job_type = l.job_type
            WHERE l.job_type = %s AND (l.everywhere OR l.firm_id = %s)
            ORDER BY l.everywhere LIMIT 1
            """,
            [job.firm_id, job.job_type, job.firm_id],
        )
    )
    if not rows:
        return None
    amount, per_seconds, tokens, next_at = rows[0]
    moment = None if tokens is None or tokens >= 1 else dialect.read_time(next_at)
    return BlockingRate(amount, per_seconds, moment if moment and moment > now else None)


def count_ahead(job: JobQueue) -> int:
    """Return how many due jobs wait for the same lock key before this one, up to MAX_AHEAD."""
    dialect = dialects.current()
    rows = reading(
        lambda: fetch(
            f"""
            SELECT count(*) FROM (
                SELECT 1 FROM jobs_jobqueue q
                WHERE q.waiting AND q.firm_id = %s AND {Q_KEY} = %s
                  AND q.scheduled_at <= {dialect.now_sql()}
                  AND (q.priority, q.scheduled_at, q.job_id) < (%s, %s, %s)
                LIMIT {MAX_AHEAD}
            ) AS ahead
            """,
            [
                job.firm_id,
                job.lock_key,
                job.priority,
                dialect.value(Column.TIME, job.scheduled_at),
                dialect.value(Column.UUID, job.pk),
            ],
        )
    )
    return int(rows[0][0])
