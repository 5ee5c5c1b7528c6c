"""Finds the next job of each strand that waits, stepping from strand to strand by the waiting index.

A strand is what waits for the same things: the jobs of one firm with one lock key (or none) and one
type. Neither the size of a strand nor that of its neighbours changes what a look at its head costs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.limit_sql import capped_sql, may_run_sql, rated_sql
from jobs.engine.released_capacity import WaitingGroup
from jobs.engine.token_bucket import empty_bucket_sql
from jobs.engine.transactions import fetch
from jobs.states import Priority

# How many strands one look steps over: a turn of the sweep; a firm's or a key's hand-over.
SWEEP_STRANDS = 500
NEAR_STRANDS = 100

# A key in the words of the waiting index. Not COALESCE: PostgreSQL takes that for a leak, and asks
# no index of a table with row level security about what may leak.
_KEY = "CASE WHEN {0}.lock_key IS NULL THEN '' ELSE {0}.lock_key END"
Q_KEY = _KEY.format("q")

# The next strand after `w`: of its key, else of its firm's next key, else of the next firm.
SAME_KEY = f"""(SELECT q.job_id FROM jobs_jobqueue q WHERE q.waiting
    AND q.firm_id = w.firm_id AND {Q_KEY} = w.lock_key AND q.job_type > w.job_type
    ORDER BY q.job_type, q.priority, q.scheduled_at, q.job_id LIMIT 1)"""
NEXT_KEY = f"""(SELECT q.job_id FROM jobs_jobqueue q WHERE q.waiting
    AND q.firm_id = w.firm_id AND {Q_KEY} > w.lock_key
    ORDER BY {Q_KEY}, q.job_type, q.priority, q.scheduled_at, q.job_id LIMIT 1)"""
NEXT_FIRM = f"""(SELECT q.job_id FROM jobs_jobqueue q WHERE q.waiting AND q.firm_id > w.firm_id
    ORDER BY q.firm_id, {Q_KEY}, q.job_type, q.priority, q.scheduled_at, q.job_id
    LIMIT 1)"""

HEADS_SQL = """
WITH RECURSIVE walk (firm_id, lock_key, job_type, steps) AS (
    SELECT s.firm_id, s.lock_key, s.job_type, 0 FROM {starts}
    UNION ALL
    SELECT n.firm_id, {next_key}, n.job_type, w.steps + 1
    FROM walk w {next_job}
    WHERE w.steps < %s
)
SELECT w.firm_id, w.lock_key, w.job_type, h.job_id, h.priority, h.scheduled_at,
    {may_run}, h.lock_limit,
    h.lock_limit - (SELECT count(*) FROM jobs_concurrencylock l
        WHERE l.firm_id = h.firm_id AND l.lock_key = h.lock_key
          AND (l.expires_at IS NULL OR l.expires_at >= {now})),
    {capped}, {rated}
FROM walk w {head_job}
WHERE w.steps > 0
"""

DUE_SQL = """(SELECT q.job_id FROM jobs_jobqueue q WHERE q.waiting
    AND q.firm_id = w.firm_id AND {key} = w.lock_key AND q.job_type = w.job_type
    AND q.priority = {priority} AND {due}
    ORDER BY q.scheduled_at, q.job_id LIMIT 1)"""


@dataclass(frozen=True)
class Head:
    """The job of a strand that is next, and how many of its key may be let through.

    `capped` and `rated` say which limits it must pass; neither is looked at here.
    """

    strand: WaitingGroup
    job_id: UUID
    priority: int
    scheduled_at: datetime
    lock_limit: int
    free_slots: int
    capped: bool
    rated: bool

    @property
    def order(self) -> tuple[int, datetime, UUID]:
        """Sort by this: the order in which jobs of one firm are let through."""
        return self.priority, self.scheduled_at, self.job_id


def heads_after(start: WaitingGroup) -> tuple[list[Head], WaitingGroup | None]:
    """Return the heads of the strands after `start`, and the last strand seen; None: the line ends.

    Heads that nobody may let through now (paused, no token, no slot of their key) are left out.
    """
    seen, heads = _walk([start], (SAME_KEY, NEXT_KEY, NEXT_FIRM), SWEEP_STRANDS)
    return heads, seen[-1] if len(seen) == SWEEP_STRANDS else None


def heads_of_keys(keys: Collection[tuple[int, str]]) -> list[Head]:
    """Return the heads of these (firm id, lock key) pairs."""
    return _walk([WaitingGroup(*key, "") for key in sorted(keys)], (SAME_KEY,), NEAR_STRANDS)[1]


def heads_near(strands: Collection[WaitingGroup]) -> list[Head]:
    """Return the heads of the firms of these strands, looked for behind each of them and in front.

    A firm with more strands is looked through further from wherever the next job of it ends.
    """
    starts = sorted({*strands, *(WaitingGroup(strand.firm_id, "", "") for strand in strands)})
    heads = _walk(starts, (SAME_KEY, NEXT_KEY), NEAR_STRANDS)[1]
    return list({head.job_id: head for head in heads}.values())


def due_sql(job: str) -> str:
    """Return the condition that a waiting job (alias `job`) could run by its own times."""
    now = dialects.current().now_sql()
    return (
        f"{job}.status = 'pending' AND {job}.scheduled_at <= {now}"
        f" AND ({job}.expires_at IS NULL OR {job}.expires_at > {now})"
    )


def _walk(
    starts: list[WaitingGroup], steps: tuple[str, ...], most: int
) -> tuple[list[WaitingGroup], list[Head]]:
    """Step `most` strands from each start; return the strands seen and the heads to be had."""
    if not starts:
        return [], []
    dialect = dialects.current()
    columns = {"firm_id": Column.BIGINT, "lock_key": Column.TEXT, "job_type": Column.TEXT}
    rows, params = dialect.rows_sql(
        "s", columns, [(one.firm_id, one.lock_key, one.job_type) for one in starts]
    )
    due_jobs = ", ".join(
        DUE_SQL.format(key=Q_KEY, priority=priority.value, due=due_sql("q"))
        for priority in Priority
    )
    found = fetch(
        HEADS_SQL.format(
            starts=rows,
            next_key=_KEY.format("n"),
            next_job=dialect.job_by_id_sql("JOIN", "n", f"COALESCE({', '.join(steps)}, NULL)"),
            head_job=dialect.job_by_id_sql("LEFT JOIN", "h", f"COALESCE({due_jobs})"),
            now=dialect.now_sql(),
            may_run=f"{may_run_sql('h')} AND NOT {empty_bucket_sql('h')}",
            capped=capped_sql("h"),
            rated=rated_sql("h"),
        ),
        [*params, most],
    )
    strands = [WaitingGroup(*row[:3]) for row in found]
    heads = [_head(row) for row in found if row[3] is not None and row[6]]
    # A head without a slot stays where others of its key might get one: it was there before them.
    open_keys = {head.strand.key for head in heads if head.free_slots > 0}
    return strands, [head for head in heads if head.strand.key in open_keys]


def _head(row: tuple[Any, ...]) -> Head:
    dialect = dialects.current()
    return Head(
        strand=WaitingGroup(*row[:3]),
        job_id=dialect.read_uuid(row[3]),
        priority=row[4],
        scheduled_at=dialect.read_time(row[5]),  # type: ignore[arg-type]  # never null
        lock_limit=row[7],
        free_slots=row[8],
        capped=bool(row[9]),
        rated=bool(row[10]),
    )
