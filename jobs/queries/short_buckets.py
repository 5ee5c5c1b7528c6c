"""Finds the buckets of rate limits that have no token for another job now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from jobs import registry
from jobs.engine import dialects
from jobs.engine.limit_sql import due_sql
from jobs.engine.rates import MOST_SPECIFIC_FIRST, BucketKey, Rate
from jobs.engine.transactions import fetch
from jobs.states import CountedBy

# Each bucket's rate, and its whole tokens.
Tokens = Mapping[BucketKey, tuple[Rate, int]]
# Says whether jobs of a category, type, firm and limit key may start, apart from rates and locks.
MayStart = Callable[[str, str, int, str], bool]


def short_buckets(may_start: MayStart, firm_ids: frozenset[int] | None) -> list[BucketKey]:
    """Return the buckets of these firms, and those of all firms, whose jobs wait for tokens.

    Such a bucket is empty, or saves its tokens for a job that needs more. Needs a transaction.
    """
    tokens = _tokens(firm_ids)
    some = {key: found for key, found in tokens.items() if 0 < found[1] < found[0].burst}
    short = _saving(some, may_start, firm_ids)
    return [key for key, (_, whole) in tokens.items() if not whole or key in short]


def _tokens(firm_ids: frozenset[int] | None) -> Tokens:
    dialect = dialects.current()
    elapsed = dialect.seconds_between_sql("b.refilled_at", dialect.now_sql())
    rows = fetch(
        f"""
        SELECT b.counted_by, b.firm_id, b.job_type, b.limit_key,
            l.amount, l.per_seconds, l.burst, b.granted, b.tokens, {elapsed}
        FROM jobs_ratebucket b
        JOIN jobs_ratelimit l ON l.counted_by = b.counted_by AND l.job_type = b.job_type
            AND l.limit_key IN ('', b.limit_key) AND (l.everywhere OR l.firm_id = b.firm_id)
        {MOST_SPECIFIC_FIRST}
        """,
        [],
    )
    found = {}
    # In reverse order, so that a bucket's most specific limit, which applies, is stored last.
    for *key, amount, per_seconds, burst, granted, stored, elapsed_seconds in reversed(rows):
        rate = Rate(amount, float(per_seconds), burst)
        refilled = stored + float(elapsed_seconds) * rate.per_second
        found[BucketKey(*key)] = rate, int(max(min(refilled, burst - granted), 0))
    return {
        key: one
        for key, one in found.items()
        if firm_ids is None or key.firm_id in firm_ids or key.counted_by == CountedBy.ALL_FIRMS
    }


def _saving(
    tokens: Tokens, may_start: MayStart, firm_ids: Collection[int] | None
) -> set[BucketKey]:
    """Return the buckets that have too few tokens for a due job which waits for them."""
    types = _heavy_types(tokens)
    if not types:
        return set()
    of_all_firms = {key.job_type: key for key in tokens if key.counted_by == CountedBy.ALL_FIRMS}
    if not of_all_firms:
        firm_ids = {key.firm_id for key in tokens}
    mine = (
        "" if firm_ids is None else f"AND q.firm_id IN ({', '.join(map(str, firm_ids)) or 'NULL'})"
    )
    waiting = fetch(
        f"""
        SELECT DISTINCT q.category, q.job_type, q.firm_id, COALESCE(q.limit_key, ''), q.limit_units
        FROM jobs_jobqueue q
        WHERE q.waiting AND q.limit_units > 1 AND {due_sql("q")} {mine}
            AND q.job_type IN ({", ".join(["%s"] * len(types))})
        """,
        types,
    )
    saving: set[BucketKey] = set()
    for category, job_type, firm_id, limit_key, units in waiting:
        counting = [
            BucketKey(CountedBy.FIRM, firm_id, job_type, ""),
            BucketKey(CountedBy.KEY, firm_id, job_type, limit_key),
            BucketKey(CountedBy.KEY, firm_id, "", limit_key),
        ]
        if job_type in of_all_firms:
            counting.append(of_all_firms[job_type])
        short = {key for key in tokens.keys() & counting if _lacks(*tokens[key], units)} - saving
        # A bucket saves nothing for a job that another limit holds back.
        if short and may_start(category, job_type, firm_id, limit_key):
            saving |= short
    return saving


def _heavy_types(tokens: Tokens) -> list[str]:
    """Return the types that these buckets count and whose jobs may cost more than one unit."""
    counted = {key.job_type for key in tokens}
    return [
        one.name
        for one in (registry.all_types() if counted else ())
        if one.limit_units != 1 and ("" in counted or one.name in counted)
    ]


def _lacks(rate: Rate, whole: int, units: int) -> bool:
    return rate.units(units) > whole
