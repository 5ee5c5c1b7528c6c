"""The condition that a claim asks of a job."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from jobs.engine import dialects
from jobs.engine.dialects.claim_parameters import ClaimFilter, named_sql
from jobs.engine.limit_sql import blocked_firm_sql, capped_firm_sql, claim_guard_sql
from jobs.states import QUARANTINE_DEATHS


def claim_filter(
    categories: Collection[str] = (), job_types: Collection[str] = (), *, quarantined: bool = True
) -> ClaimFilter:
    """Return the condition that a job of these categories and types may be claimed now."""
    now = dialects.current().now_sql()
    return _claim_filter(tuple(categories), tuple(job_types), quarantined, now)


@lru_cache(maxsize=16)
def _claim_filter(
    categories: tuple[str, ...], job_types: tuple[str, ...], quarantined: bool, now: str
) -> ClaimFilter:
    sql = (
        f"q.status = 'pending' AND q.scheduled_at <= {now}"
        f" AND (q.expires_at IS NULL OR q.expires_at > {now})"
        f" AND q.attempts < q.max_attempts AND {claim_guard_sql('q')}"
    )
    if not quarantined:
        sql += f" AND q.deaths < {QUARANTINE_DEATHS}"
    named, params = named_sql("q", categories, job_types)
    return ClaimFilter(
        sql=f"{sql} AND {named}" if params else sql,
        params=tuple(params),
        categories=categories,
        job_types=job_types,
        blocked=blocked_firm_sql("firm"),
        capped=capped_firm_sql("firm"),
    )
