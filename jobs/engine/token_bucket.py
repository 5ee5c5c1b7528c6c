"""Enforces a type's start rate: a bucket of tokens per firm and type, refilled by time.

A token is taken on admission, but the limit is on starts, and an admitted job may start later. So
the tokens, with the jobs that may still be about to start, never exceed `burst`. Those are the
admitted jobs not yet running, now or at the last refill (they may have started just now). In any
period the starts are then at most `burst` plus what was refilled in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch, run


@dataclass(frozen=True)
class Bucket:
    """The tokens of one firm and type; `refilled_at` is in the database's own form."""

    firm_id: int
    job_type: str
    tokens: float
    granted: int
    refilled_at: Any


def lock_bucket(firm_id: int, job_type: str) -> Bucket | None:
    """Lock and refill the bucket; a new one is full. None: no limit applies."""
    limits = fetch(
        """
        SELECT amount, per_seconds, burst FROM jobs_ratelimit
        WHERE job_type = %s AND (everywhere OR firm_id = %s) ORDER BY everywhere LIMIT 1
        """,
        [job_type, firm_id],
    )
    if not limits:
        return None
    amount, per_seconds, burst = limits[0]
    dialect = dialects.current()
    now = dialect.now_sql()
    ((tokens, granted, elapsed, refilled_at),) = fetch(
        f"""
        INSERT INTO jobs_ratebucket AS b (id, firm_id, job_type, tokens, granted, refilled_at)
        VALUES (%s, %s, %s, %s, 0, {now})
        ON CONFLICT (firm_id, job_type) DO UPDATE SET granted = b.granted
        RETURNING tokens, granted, {dialect.seconds_between_sql("refilled_at", now)}, {now}
        """,
        [dialect.value(Column.UUID, uuid7()), firm_id, job_type, float(burst)],
    )
    ((about_to_start,),) = fetch(
        """
        SELECT count(*) FROM jobs_jobqueue q
        WHERE q.admitted AND q.ready AND q.firm_id = %s AND q.job_type = %s
          AND q.status IN ('pending', 'claimed')
        """,
        [firm_id, job_type],
    )
    room = burst - max(granted, about_to_start)
    refilled = tokens + max(float(elapsed), 0.0) * amount / per_seconds
    return Bucket(firm_id, job_type, max(min(refilled, room), 0.0), about_to_start, refilled_at)


def store_bucket(bucket: Bucket, taken: int) -> None:
    """Store the bucket less the tokens taken."""
    run(
        "UPDATE jobs_ratebucket SET tokens = %s, granted = %s, refilled_at = %s"
        " WHERE firm_id = %s AND job_type = %s",
        [
            bucket.tokens - taken,
            bucket.granted + taken,
            bucket.refilled_at,
            bucket.firm_id,
            bucket.job_type,
        ],
    )


def empty_bucket_sql(job: str) -> str:
    """Return the condition that no token for the job can be had now, nor the bucket corrected."""
    dialect = dialects.current()
    elapsed = dialect.seconds_between_sql("b.refilled_at", dialect.now_sql())
    rate = (
        f"SELECT l.amount / l.per_seconds FROM jobs_ratelimit l WHERE l.job_type = {job}.job_type"
    )
    per_second = (
        f"COALESCE(({rate} AND l.firm_id = {job}.firm_id AND NOT l.everywhere),"
        f" ({rate} AND l.everywhere))"
    )
    return (
        "EXISTS (SELECT 1 FROM jobs_ratebucket b"
        f" WHERE b.firm_id = {job}.firm_id AND b.job_type = {job}.job_type AND b.granted = 0"
        f" AND b.tokens + {elapsed} * {per_second} < 1)"
    )
