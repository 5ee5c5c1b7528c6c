"""Takes jobs out of the claim's way that it would refuse: from ready back to waiting.

A limit holds for every claim from its commit on; parking only keeps the claim index clean, and puts
what was ready before the limit came (or meanwhile) where admission finds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.limit_sql import COUNTED, LIMITED_FIRM, any_limit_sql, claim_guard_sql
from jobs.engine.locks import free_job_locks
from jobs.engine.transactions import fetch, in_transaction, reading

CHUNK = 1000
SURPLUS_FIRMS = 100

PARK_SQL = """
WITH parked AS {materialized} (
    SELECT q.job_id FROM jobs_jobqueue q
    WHERE q.ready AND q.status = 'pending' AND {which} {order} LIMIT %s {skip_locked}
)
UPDATE jobs_jobqueue
SET ready = false, waiting = true, admitted = false, updated_at = {now}
WHERE job_id IN (SELECT parked.job_id FROM parked) AND status = 'pending'
RETURNING job_id, lock_key
"""

# The order of the claim index.
PLACE = "(q.priority, q.firm_id, q.scheduled_at, q.job_id)"
IN_ORDER = "ORDER BY q.priority, q.firm_id, q.scheduled_at, q.job_id"

Entry = tuple[Any, ...]


@dataclass
class Parking:
    """Where a worker's look over the claim index goes on."""

    _after: Entry | None = None

    def step(self) -> bool:
        """Park what is found at the next stretch of the index; False: it was the last one.

        The firms that are capped or inactive are looked at first, each time.
        """
        if not reading(_any_limit):
            return False
        in_transaction(_park_surplus)
        full = in_transaction(_park_limited_firms) == CHUNK
        self._after = in_transaction(lambda: _park_stretch(self._after))
        return full or self._after is not None


def park() -> None:
    """Park whatever the claim would refuse."""
    parking = Parking()
    while parking.step():
        pass


def park_type(firm_id: int | None, job_type: str) -> None:
    """Park what was let through of a type and has not been claimed, so that it passes a new limit.

    `firm_id` None means every firm. Joins the transaction that sets the limit.
    """
    in_transaction(lambda: _park_type(firm_id, job_type))


def _any_limit() -> bool:
    return bool(fetch(f"SELECT 1 WHERE {any_limit_sql()}", []))


def _park_limited_firms() -> int:
    limited = f"q.firm_id IN (SELECT f.id FROM tenants_firm f WHERE {LIMITED_FIRM})"
    guard = claim_guard_sql("q")
    return _park(f"q.priority IN (0, 1, 2, 3) AND {limited} AND NOT {guard}", [])


def _park_stretch(after: Entry | None) -> Entry | None:
    """Park what is refused of the next entries of the index; return the last, None at its end."""
    where = "q.ready" if after is None else f"q.ready AND {PLACE} > (%s, %s, %s, %s)"
    start = list(after or ())
    ends = fetch(
        f"""
        SELECT q.priority, q.firm_id, q.scheduled_at, q.job_id FROM jobs_jobqueue q
        WHERE {where} {IN_ORDER} LIMIT 1 OFFSET {CHUNK - 1}
        """,
        start,
    )
    end = None if not ends else _entry(ends[0])
    until = "" if end is None else f" AND {PLACE} <= (%s, %s, %s, %s)"
    _park(f"{where}{until} AND NOT {claim_guard_sql('q')}", [*start, *(end or ())])
    return end


def _entry(row: Entry) -> Entry:
    dialect = dialects.current()
    priority, firm_id, scheduled_at, job_id = row
    return (
        priority,
        firm_id,
        dialect.value(Column.TIME, dialect.read_time(scheduled_at)),
        dialect.value(Column.UUID, dialect.read_uuid(job_id)),
    )


def _park_surplus() -> int:
    """Take back what was let through and has not been claimed where a cap was lowered since."""
    over = fetch(
        f"""
        SELECT c.firm_id, c.surplus FROM (
            SELECT f.id AS firm_id, (
                SELECT count(*) FROM jobs_jobqueue q WHERE {COUNTED} AND q.firm_id = f.id
            ) - f.running_cap AS surplus
            FROM tenants_firm f WHERE {LIMITED_FIRM} AND f.running_cap IS NOT NULL
        ) AS c WHERE c.surplus > 0 LIMIT {SURPLUS_FIRMS}
        """,
        [],
    )
    last_first = "ORDER BY q.priority DESC, q.scheduled_at DESC, q.job_id DESC"
    return sum(
        _park("q.admitted AND q.firm_id = %s", [firm_id], order=last_first, most=surplus)
        for firm_id, surplus in over
    )


def _park_type(firm_id: int | None, job_type: str) -> None:
    which = "q.admitted AND q.job_type = %s"
    params: list[Any] = [job_type]
    if firm_id is not None:
        which += " AND q.firm_id = %s"
        params.append(firm_id)
    while _park(which, params) == CHUNK:
        pass


def _park(which: str, params: list[Any], *, order: str = "", most: int = CHUNK) -> int:
    dialect = dialects.current()
    rows = fetch(
        PARK_SQL.format(
            materialized=dialect.materialized,
            which=which,
            order=order,
            skip_locked=dialect.skip_locked,
            now=dialect.now_sql(),
        ),
        [*params, most],
    )
    free_job_locks([dialect.read_uuid(row[0]) for row in rows if row[1] is not None])
    return len(rows)
