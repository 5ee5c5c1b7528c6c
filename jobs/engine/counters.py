"""Counts ended attempts and jobs by minute, without a row that two transactions would share.

Each statement inserts deltas of its own. Maintenance folds them into the rows of the minutes
and of the hours; readers add the deltas to one of these (`jobs.queries.stats.sum_counters`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.dialects import LOCK_TIMEOUT_MILLISECONDS, Column
from jobs.engine.transactions import (
    LockTimeout,
    fetch,
    in_transaction,
    run,
)
from jobs.models.history import COUNTERS

FOLD_BATCH = 2000
COUNTER_COLUMNS = ", ".join(COUNTERS)
# By firm, category and start.
Sums = dict[tuple[Any, ...], list[int]]
INDEX = {counter: index for index, counter in enumerate(COUNTERS)}


class Counted(NamedTuple):
    """One event to count: the end of an attempt or a job, or an operation on a settled job."""

    firm_id: int
    category: str
    counter: str
    waited_seconds: float = 0.0
    ran_seconds: float = 0.0


def count(counted: Iterable[Counted]) -> None:
    """Add to the counters of this minute, in the open transaction."""
    sums: dict[tuple[int, str], list[int]] = {}
    for firm_id, category, counter, waited_seconds, ran_seconds in counted:
        counters = sums.get((firm_id, category))
        if counters is None:
            counters = sums[firm_id, category] = [0] * len(COUNTERS)
        counters[INDEX[counter]] += 1
        counters[-2] += round(waited_seconds * 1000)
        counters[-1] += round(ran_seconds * 1000)
    if not sums:
        return
    dialect = dialects.current()
    columns = {"id": Column.UUID, "firm_id": Column.BIGINT, "category": Column.TEXT}
    columns |= dict.fromkeys(COUNTERS, Column.BIGINT)
    rows, params = dialect.rows_sql(
        "r", columns, [(uuid7(), *key, *counters) for key, counters in sums.items()]
    )
    run(
        f"""
        INSERT INTO jobs_jobminutedelta (id, firm_id, category, {COUNTER_COLUMNS}, minute)
        SELECT r.*, {dialect.minute_sql(dialect.now_sql())} FROM {rows}
        """,
        params,
        prepared=True,
    )


def fold_counters() -> int:
    """Add a batch of deltas to the rows of their minutes; return how many were added.

    Other workers may do the same meanwhile: each delta is locked and deleted once, in the
    transaction that adds it.
    """
    try:
        return in_transaction(_fold, lock_timeout_ms=LOCK_TIMEOUT_MILLISECONDS)
    except LockTimeout:
        return 0


def _fold() -> int:
    dialect = dialects.current()
    deltas = fetch(
        f"""
        WITH taken AS {dialect.materialized} (
            SELECT id FROM jobs_jobminutedelta LIMIT {FOLD_BATCH} {dialect.skip_locked}
        )
        DELETE FROM jobs_jobminutedelta WHERE id IN (SELECT taken.id FROM taken)
        RETURNING firm_id, category, minute, {COUNTER_COLUMNS}
        """,
        [],
        prepared=True,
    )
    if not deltas:
        return 0
    minutes: Sums = {}
    hours: Sums = {}
    for firm_id, category, minute, *counters in deltas:
        moment = dialect.read_time(minute)
        for sums, start in ((minutes, moment), (hours, moment.replace(minute=0))):
            key = firm_id, category, start
            known = sums.get(key)
            sums[key] = counters if known is None else list(map(int.__add__, known, counters))
    _add_to("jobs_jobminute", minutes)
    _add_to("jobs_jobhour", hours)
    return len(deltas)


def _add_to(table: str, sums: Sums) -> None:
    """Add these sums to the table's rows, by firm, category and start."""
    columns = {
        "id": Column.UUID,
        "firm_id": Column.BIGINT,
        "category": Column.TEXT,
        "minute": Column.TIME,
        **dict.fromkeys(COUNTERS, Column.BIGINT),
    }
    # In key order: two workers that add to the same rows cannot deadlock.
    values = [(uuid7(), *key, *counters) for key, counters in sorted(sums.items())]
    rows, params = dialects.current().rows_sql("r", columns, values)
    added = ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in COUNTERS)
    run(
        f"""
        INSERT INTO {table} (id, firm_id, category, minute, {COUNTER_COLUMNS})
        SELECT r.* FROM {rows} WHERE true
        ON CONFLICT (firm_id, category, minute) DO UPDATE SET {added}
        """,
        params,
        prepared=True,
    )
