"""Hands out a type's starts: a bucket of tokens per firm and type, refilled by time.

A token is taken when a job is let through, but the limit is on starts, and a job that was let
through may start later. So the bucket never holds more than `burst` together with the jobs let
through that may still be about to start: those there are now, and those there were at the last look
(they may have started this very moment). In any time then, starts are at most what was in the
bucket and before it, `burst`, and what that time has added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch, run


@dataclass
class Bucket:
    """The tokens of one firm for one type, locked until the transaction ends.

    `looked_at` is the database's own time, in its own form.
    """

    firm_id: int
    job_type: str
    tokens: float
    granted: int
    looked_at: Any

    @property
    def starts(self) -> int:
        """How many jobs may be let through now."""
        return int(self.tokens)


def open_bucket(firm_id: int, job_type: str) -> Bucket | None:
    """Lock and refill the bucket, which is made full at the first look. None: no limit holds."""
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
    ((tokens, granted, elapsed, looked_at),) = fetch(
        f"""
        INSERT INTO jobs_ratebucket AS b (id, firm_id, job_type, tokens, granted, refilled_at)
        VALUES (%s, %s, %s, %s, 0, {now})
        ON CONFLICT (firm_id, job_type) DO UPDATE SET granted = b.granted
        RETURNING tokens, granted, {dialect.seconds_between_sql("refilled_at", now)}, {now}
        """,
        [dialect.value(Column.UUID, uuid7()), firm_id, job_type, float(burst)],
    )
    about_to_start = _about_to_start(firm_id, job_type)
    room = burst - max(granted, about_to_start)
    refilled = tokens + max(float(elapsed), 0.0) * amount / per_seconds
    return Bucket(firm_id, job_type, max(min(refilled, room), 0.0), about_to_start, looked_at)


def close_bucket(bucket: Bucket, taken: int) -> None:
    """Write down what was taken; the moment of the look, so that no refill is lost."""
    run(
        "UPDATE jobs_ratebucket SET tokens = %s, granted = %s, refilled_at = %s"
        " WHERE firm_id = %s AND job_type = %s",
        [
            bucket.tokens - taken,
            bucket.granted + taken,
            bucket.looked_at,
            bucket.firm_id,
            bucket.job_type,
        ],
    )


def empty_bucket_sql(job: str) -> str:
    """Return the condition that a look into the job's bucket now would change nothing."""
    dialect = dialects.current()
    elapsed = dialect.seconds_between_sql("b.refilled_at", dialect.now_sql())
    return (
        "EXISTS (SELECT 1 FROM jobs_ratebucket b"
        f" WHERE b.firm_id = {job}.firm_id AND b.job_type = {job}.job_type AND b.granted = 0"
        f" AND b.tokens + {elapsed} * {_per_second_sql(job)} < 1)"
    )


def _per_second_sql(job: str) -> str:
    """Return the tokens a second adds: by the firm's own limit, else by the one for everywhere."""
    limit = (
        f"SELECT l.amount / l.per_seconds FROM jobs_ratelimit l WHERE l.job_type = {job}.job_type"
    )
    return (
        f"COALESCE(({limit} AND l.firm_id = {job}.firm_id AND NOT l.everywhere),"
        f" ({limit} AND l.everywhere))"
    )


def _about_to_start(firm_id: int, job_type: str) -> int:
    """Count the jobs let through whose handlers have not been seen to run."""
    ((number,),) = fetch(
        """
        SELECT count(*) FROM jobs_jobqueue q
        WHERE q.admitted AND q.ready AND q.firm_id = %s AND q.job_type = %s
          AND q.status IN ('pending', 'claimed')
        """,
        [firm_id, job_type],
    )
    return int(number)
