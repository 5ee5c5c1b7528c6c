"""SQL conditions: of what a claim may take, and of what holds jobs back.

Pauses, breakers, caps, rates and inactive firms hold jobs back. Each condition first asks, once per
statement, whether any such row exists: without limits, a job costs nothing. `job` is the alias of a
row with firm_id, category, job_type and limit_key.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from jobs.engine import dialects
from jobs.engine.dialects.claim_parameters import ClaimFilter, named_sql
from jobs.states import QUARANTINE_DEATHS, CountedBy

# Must be spelled as in the partial index `firm_limited`, or neither database would use it.
LIMITED_FIRM = "(f.running_cap IS NOT NULL OR NOT f.active)"

# Must be spelled as in the partial index `breaker_not_closed`.
NOT_CLOSED = "b.state IN ('open', 'half_open')"

# Jobs that count against their firm's cap: admitted or in flight. The priorities are named so that
# the database uses the claim index.
COUNTED = "q.ready AND q.priority IN (0, 1, 2, 3) AND (q.admitted OR q.status <> 'pending')"

_ANY_PAUSE = "EXISTS (SELECT 1 FROM jobs_pause)"
_ANY_BREAKER = f"EXISTS (SELECT 1 FROM jobs_circuitbreaker b WHERE {NOT_CLOSED})"
ANY_RATE = "EXISTS (SELECT 1 FROM jobs_ratelimit)"
_ANY_LIMITED_FIRM = f"EXISTS (SELECT 1 FROM tenants_firm f WHERE {LIMITED_FIRM})"


def any_limit_sql() -> str:
    """Return the condition that any limit exists."""
    return f"({_ANY_PAUSE} OR {_ANY_BREAKER} OR {ANY_RATE} OR {_ANY_LIMITED_FIRM})"


def held_back_sql(job: str, *, single: bool = False) -> str:
    """Return the condition that a pending job must wait for admission.

    For a `single` job it does not ask first whether any such row exists: that would cost more.
    """
    limits = {
        _ANY_PAUSE: _paused(job),
        _ANY_BREAKER: _broken(job),
        ANY_RATE: rated_sql(job),
        _ANY_LIMITED_FIRM: _firm(job, LIMITED_FIRM),
    }
    conditions = limits.values() if single else (f"({a} AND {b})" for a, b in limits.items())
    return f"({' OR '.join(conditions)})"


def claim_guard_sql(job: str) -> str:
    """Return the condition that a ready job (with the column `admitted`) may be claimed now.

    It makes a limit hold for every claim that starts after the limit's commit, even for jobs that
    were ready before.
    """
    return (
        f"({may_run_sql(job)} AND ({job}.admitted OR NOT ({ANY_RATE} AND {rated_sql(job)})"
        f" AND NOT ({_ANY_LIMITED_FIRM} AND {capped_sql(job)})))"
    )


def may_run_sql(job: str) -> str:
    """Return the condition that no pause, inactive firm or breaker stops the job.

    A breaker does not stop its probe.
    """
    inactive = _firm(job, f"{LIMITED_FIRM} AND NOT f.active")
    return (
        f"(NOT ({_ANY_PAUSE} AND {_paused(job)}) AND NOT ({_ANY_LIMITED_FIRM} AND {inactive})"
        f" AND NOT ({_ANY_BREAKER} AND {_broken(job, probe=f'{job}.job_id')}))"
    )


def capped_sql(job: str) -> str:
    """Return the condition that the job's firm has a cap."""
    return _firm(job, f"{LIMITED_FIRM} AND f.running_cap IS NOT NULL")


def _blocked_firm(firm: str) -> str:
    """Return the condition that no job of a firm (alias of a row with firm_id) may start.

    `may_run_sql` is false for all jobs of such a firm; this condition spares the scan of them.
    """
    inactive = _firm(firm, f"{LIMITED_FIRM} AND NOT f.active")
    return f"(({_ANY_PAUSE} AND {_firm_paused(firm)}) OR ({_ANY_LIMITED_FIRM} AND {inactive}))"


def rated_sql(job: str) -> str:
    """Return the condition that a rate limit applies to the job."""
    return (
        "EXISTS (SELECT 1 FROM jobs_ratelimit l"
        f" WHERE (l.everywhere OR l.firm_id = {job}.firm_id) AND l.job_type IN ('', {job}.job_type)"
        f" AND (l.counted_by <> '{CountedBy.KEY}' OR l.limit_key = {job}.limit_key"
        f" OR (l.limit_key = '' AND {job}.limit_key IS NOT NULL)))"
    )


def key_sql(job: str, column: str) -> str:
    """Return a key of the job, empty if it has none, spelled as in the waiting index.

    COALESCE would not do: under row level security PostgreSQL uses no index for an expression that
    it does not know to be leakproof.
    """
    return f"CASE WHEN {job}.{column} IS NULL THEN '' ELSE {job}.{column} END"


def due_sql(job: str) -> str:
    """Return the condition that a waiting job is pending, due and not expired."""
    now = dialects.current().now_sql()
    return (
        f"{job}.status = 'pending' AND {job}.scheduled_at <= {now}"
        f" AND ({job}.expires_at IS NULL OR {job}.expires_at > {now})"
    )


def matches_pause_sql(pause: str, job: str) -> str:
    """Return the condition that the pause (alias `pause`) is in force and covers the job."""
    return (
        f"({_covers_firm(pause, job)}"
        f" AND {pause}.category IN ('', {job}.category)"
        f" AND {pause}.job_type IN ('', {job}.job_type)"
        f" AND {pause}.limit_key IN ('', {job}.limit_key))"
    )


def _broken(job: str, *, probe: str | None = None) -> str:
    besides = f" AND NOT COALESCE(b.probe_job_id = {probe}, false)" if probe else ""
    return (
        f"EXISTS (SELECT 1 FROM jobs_circuitbreaker b WHERE {NOT_CLOSED}"
        f" AND b.firm_id = {job}.firm_id AND b.job_type = {job}.job_type"
        f" AND b.limit_key = {key_sql(job, 'limit_key')}{besides})"
    )


def _paused(job: str) -> str:
    return f"EXISTS (SELECT 1 FROM jobs_pause p WHERE {matches_pause_sql('p', job)})"


def _firm_paused(firm: str) -> str:
    return (
        f"EXISTS (SELECT 1 FROM jobs_pause p WHERE {_covers_firm('p', firm)}"
        " AND p.category = '' AND p.job_type = '' AND p.limit_key = '')"
    )


def _covers_firm(pause: str, firm: str) -> str:
    now = dialects.current().now_sql()
    return (
        f"({pause}.until IS NULL OR {pause}.until > {now})"
        f" AND ({pause}.everywhere OR {pause}.firm_id = {firm}.firm_id)"
    )


def _firm(job: str, condition: str) -> str:
    return f"EXISTS (SELECT 1 FROM tenants_firm f WHERE f.id = {job}.firm_id AND {condition})"


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
        blocked=_blocked_firm("firm"),
        capped=f"({_ANY_LIMITED_FIRM} AND {capped_sql('firm')})",
    )
