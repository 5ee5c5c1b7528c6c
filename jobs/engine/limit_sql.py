"""What holds work back: pauses, breakers, caps, rates, inactive firms; as SQL conditions on a job.

Each condition asks first, once a statement, whether any such row exists at all: where nobody holds
anything back, which is nearly everywhere, a job costs nothing. `job` is the alias of a row that has
the columns firm_id, category and job_type, and for the claim also admitted.
"""

from __future__ import annotations

from jobs.engine import dialects

# Spelled as the partial index `firm_limited` is, or neither database would use it.
LIMITED_FIRM = "(f.running_cap IS NOT NULL OR NOT f.active)"

# Spelled as the partial index `breaker_not_closed` is.
NOT_CLOSED = "b.state IN ('open', 'half_open')"

# What takes up room under a firm's cap: let through, or in flight. By the claim index.
COUNTED = "q.ready AND q.priority IN (0, 1, 2, 3) AND (q.admitted OR q.status <> 'pending')"

_ANY_PAUSE = "EXISTS (SELECT 1 FROM jobs_pause)"
_ANY_BREAKER = f"EXISTS (SELECT 1 FROM jobs_circuitbreaker b WHERE {NOT_CLOSED})"
_ANY_RATE = "EXISTS (SELECT 1 FROM jobs_ratelimit)"
_ANY_LIMITED_FIRM = f"EXISTS (SELECT 1 FROM tenants_firm f WHERE {LIMITED_FIRM})"


def any_limit_sql() -> str:
    """Return the condition that anything is held back anywhere."""
    return f"({_ANY_PAUSE} OR {_ANY_BREAKER} OR {_ANY_RATE} OR {_ANY_LIMITED_FIRM})"


def held_back_sql(job: str) -> str:
    """Return the condition that a pending job (alias `job`) must wait for admission."""
    return (
        f"(({_ANY_PAUSE} AND {_paused(job)}) OR ({_ANY_BREAKER} AND {broken_sql(job)})"
        f" OR ({_ANY_RATE} AND {rated_sql(job)})"
        f" OR ({_ANY_LIMITED_FIRM} AND {_of_firm(job, LIMITED_FIRM)}))"
    )


def claim_guard_sql(job: str) -> str:
    """Return the condition that a ready job (alias `job`) may be claimed right now.

    The exact wall: it holds for every claim that starts after a pause, cap or rate was committed,
    whatever became ready before or meanwhile.
    """
    return (
        f"({may_run_sql(job)} AND ({job}.admitted OR NOT ({_ANY_RATE} AND {rated_sql(job)})"
        f" AND NOT ({_ANY_LIMITED_FIRM} AND {capped_sql(job)})))"
    )


def may_run_sql(job: str) -> str:
    """Return the condition that nobody has stopped the job (alias `job`).

    No pause, its firm active, and no breaker open, unless it is the one to be tried.
    """
    inactive = _of_firm(job, f"{LIMITED_FIRM} AND NOT f.active")
    probe = f"b.probe_job_id = {job}.job_id"
    return (
        f"(NOT ({_ANY_PAUSE} AND {_paused(job)}) AND NOT ({_ANY_LIMITED_FIRM} AND {inactive})"
        f" AND NOT ({_ANY_BREAKER} AND {broken_sql(job, besides=probe)}))"
    )


def capped_sql(job: str) -> str:
    """Return the condition that the job's firm has a cap."""
    return _of_firm(job, f"{LIMITED_FIRM} AND f.running_cap IS NOT NULL")


def capped_firm_sql(firm: str) -> str:
    """Return the condition that a firm (alias `firm`, a row with firm_id) has a cap."""
    return f"({_ANY_LIMITED_FIRM} AND {capped_sql(firm)})"


def still_firm_sql(firm: str) -> str:
    """Return the condition that nothing of a firm (alias `firm`, a row with firm_id) may start.

    It says no more than `may_run_sql` does of each job, and spares a walk along all of them.
    """
    inactive = _of_firm(firm, f"{LIMITED_FIRM} AND NOT f.active")
    return f"(({_ANY_PAUSE} AND {_firm_paused(firm)}) OR ({_ANY_LIMITED_FIRM} AND {inactive}))"


def rated_sql(job: str) -> str:
    """Return the condition that a rate limit holds for the job."""
    return (
        "EXISTS (SELECT 1 FROM jobs_ratelimit l"
        f" WHERE l.job_type = {job}.job_type AND (l.everywhere OR l.firm_id = {job}.firm_id))"
    )


def broken_sql(job: str, *, besides: str = "false") -> str:
    """Return the condition that the breaker of the job's type is not closed for its firm."""
    return (
        "EXISTS (SELECT 1 FROM jobs_circuitbreaker b"
        f" WHERE {NOT_CLOSED} AND b.firm_id = {job}.firm_id"
        f" AND b.job_type = {job}.job_type AND NOT COALESCE({besides}, false))"
    )


def matches_pause_sql(pause: str, job: str) -> str:
    """Return the condition that the pause (alias `pause`) is in force and means the job."""
    return (
        f"({_matches_firm(pause, job)}"
        f" AND {pause}.category IN ('', {job}.category)"
        f" AND {pause}.job_type IN ('', {job}.job_type))"
    )


def _paused(job: str) -> str:
    return f"EXISTS (SELECT 1 FROM jobs_pause p WHERE {matches_pause_sql('p', job)})"


def _firm_paused(firm: str) -> str:
    return (
        f"EXISTS (SELECT 1 FROM jobs_pause p WHERE {_matches_firm('p', firm)}"
        " AND p.category = '' AND p.job_type = '')"
    )


def _matches_firm(pause: str, firm: str) -> str:
    now = dialects.current().now_sql()
    return (
        f"({pause}.until IS NULL OR {pause}.until > {now})"
        f" AND ({pause}.everywhere OR {pause}.firm_id = {firm}.firm_id)"
    )


def _of_firm(job: str, condition: str) -> str:
    return f"EXISTS (SELECT 1 FROM tenants_firm f WHERE f.id = {job}.firm_id AND {condition})"
