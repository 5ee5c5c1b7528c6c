"""Demotes ready jobs that the claim would refuse: from ready back to waiting.

Every claim obeys a limit from its commit on, demoted or not. Demotion removes jobs that cannot be
claimed from the claim index, and makes them waiting, so that admission finds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.limit_sql import COUNTED, LIMITED_FIRM, any_limit_sql, claim_guard_sql
from jobs.engine.locks import free_job_locks
from jobs.engine.transactions import fetch, in_transaction, reading
from jobs.states import CountedBy

BATCH = 1000
FIRMS_OVER_CAP = 100

DEMOTE_SQL = """
WITH demoted AS {materialized} (
    SELECT q.job_id FROM jobs_jobqueue q
    WHERE q.ready AND q.status = 'pending' AND {condition} {order} LIMIT %s {skip_locked}
)
UPDATE jobs_jobqueue
SET ready = false, waiting = true, admitted = false, updated_at = {now}
WHERE job_id IN (SELECT demoted.job_id FROM demoted) AND status = 'pending'
RETURNING job_id, lock_key
"""

# The order of the claim index.
POSITION = "(q.priority, q.firm_id, q.scheduled_at, q.job_id)"
IN_ORDER = "ORDER BY q.priority, q.firm_id, q.scheduled_at, q.job_id"

Position = tuple[Any, ...]


@dataclass
class Demotion:
    """Reads the claim index in steps, again and again, and demotes what the claim would refuse."""

    _after: Position | None = None

    def step(self) -> bool:
        """Demote from limited firms, then from the next index batch; False after the last one."""
        if not reading(lambda: fetch(f"SELECT 1 WHERE {any_limit_sql()}", [])):
            return False
        in_transaction(_demote_over_cap)
        full = in_transaction(_demote_of_limited_firms) == BATCH
        self._after = in_transaction(lambda: _demote_after(self._after))
        return full or self._after is not None


def demote() -> None:
    """Demote all jobs that the claim would refuse."""
    steps = Demotion()
    while steps.step():
        pass


def demote_rated(
    firm_id: int | None, *, job_type: str, limit_key: str, counted_by: CountedBy
) -> None:
    """Demote admitted, unclaimed jobs that a new rate limit applies to, so that they pass it.

    `firm_id` None means every firm; an empty type or key means any. Joins the transaction that sets
    the limit.
    """
    condition = "q.admitted"
    params: list[Any] = []
    for column, value in (("firm_id", firm_id), ("job_type", job_type), ("limit_key", limit_key)):
        if value:
            condition += f" AND q.{column} = %s"
            params.append(value)
    if counted_by is CountedBy.KEY:
        condition += " AND q.limit_key IS NOT NULL"

    def work() -> None:
        while _demote(condition, params) == BATCH:
            pass

    in_transaction(work)


def _demote_of_limited_firms() -> int:
    limited = f"q.firm_id IN (SELECT f.id FROM tenants_firm f WHERE {LIMITED_FIRM})"
    guard = claim_guard_sql("q")
    return _demote(f"q.priority IN (0, 1, 2, 3) AND {limited} AND NOT {guard}", [])


def _demote_after(start: Position | None) -> Position | None:
    """Demote from the next batch of the index; return its last position, None at the end."""
    where = "q.ready" if start is None else f"q.ready AND {POSITION} > (%s, %s, %s, %s)"
    params = list(start or ())
    last = fetch(
        f"""
        SELECT q.priority, q.firm_id, q.scheduled_at, q.job_id FROM jobs_jobqueue q
        WHERE {where} {IN_ORDER} LIMIT 1 OFFSET {BATCH - 1}
        """,
        params,
    )
    end = _position(last[0]) if last else None
    until = "" if end is None else f" AND {POSITION} <= (%s, %s, %s, %s)"
    _demote(f"{where}{until} AND NOT {claim_guard_sql('q')}", [*params, *(end or ())])
    return end


def _position(row: Position) -> Position:
    """Return a position that was read from the index as parameters of a statement."""
    dialect = dialects.current()
    priority, firm_id, scheduled_at, job_id = row
    return (
        priority,
        firm_id,
        dialect.value(Column.TIME, dialect.read_time(scheduled_at)),
        dialect.value(Column.UUID, dialect.read_uuid(job_id)),
    )


def _demote_over_cap() -> None:
    """Demote admitted, unclaimed jobs of firms whose cap was lowered, the last to start first."""
    over_cap = fetch(
        f"""
        SELECT c.firm_id, c.surplus FROM (
            SELECT f.id AS firm_id, (
                SELECT count(*) FROM jobs_jobqueue q WHERE {COUNTED} AND q.firm_id = f.id
            ) - f.running_cap AS surplus
            FROM tenants_firm f WHERE {LIMITED_FIRM} AND f.running_cap IS NOT NULL
        ) AS c WHERE c.surplus > 0 LIMIT {FIRMS_OVER_CAP}
        """,
        [],
    )
    last_first = "ORDER BY q.priority DESC, q.scheduled_at DESC, q.job_id DESC"
    for firm_id, surplus in over_cap:
        _demote("q.admitted AND q.firm_id = %s", [firm_id], order=last_first, limit=surplus)


def _demote(condition: str, params: list[Any], *, order: str = "", limit: int = BATCH) -> int:
    dialect = dialects.current()
    rows = fetch(
        DEMOTE_SQL.format(
            materialized=dialect.materialized,
            condition=condition,
            order=order,
            skip_locked=dialect.skip_locked,
            now=dialect.now_sql(),
        ),
        [*params, limit],
    )
    free_job_locks([dialect.read_uuid(row[0]) for row in rows if row[1] is not None])
    return len(rows)
