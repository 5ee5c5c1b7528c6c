"""Finds admission candidates: the next job of each waiting group, by the waiting index.

The cost of finding a candidate depends neither on the size of its group nor on its neighbours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.limit_sql import capped_sql, due_sql, may_run_sql, rated_sql
from jobs.engine.locks import WaitingGroup
from jobs.engine.token_bucket import empty_bucket_sql
from jobs.engine.transactions import fetch
from jobs.states import Priority

# How many groups one call reads: a step of the sweep; after each released key or group.
SWEEP_GROUPS = 500
RELEASED_GROUPS = 100

# As in the waiting index. Not COALESCE: under row level security PostgreSQL uses no index for
# functions that it does not know to be leakproof.
_KEY = "CASE WHEN {0}.lock_key IS NULL THEN '' ELSE {0}.lock_key END"
Q_KEY = _KEY.format("q")

# The group after `w`: of the same key, else of its firm's next key, else of the next firm.
SAME_KEY = f"""(SELECT q.job_id FROM jobs_jobqueue q WHERE q.waiting
    AND q.firm_id = w.firm_id AND {Q_KEY} = w.lock_key AND q.job_type > w.job_type
    ORDER BY q.job_type, q.priority, q.scheduled_at, q.job_id LIMIT 1)"""
NEXT_KEY = f"""(SELECT q.job_id FROM jobs_jobqueue q WHERE q.waiting
    AND q.firm_id = w.firm_id AND {Q_KEY} > w.lock_key
    ORDER BY {Q_KEY}, q.job_type, q.priority, q.scheduled_at, q.job_id LIMIT 1)"""
NEXT_FIRM = f"""(SELECT q.job_id FROM jobs_jobqueue q WHERE q.waiting AND q.firm_id > w.firm_id
    ORDER BY q.firm_id, {Q_KEY}, q.job_type, q.priority, q.scheduled_at, q.job_id
    LIMIT 1)"""

CANDIDATES_SQL = """
WITH RECURSIVE waiting_group (firm_id, lock_key, job_type, steps) AS (
    SELECT s.firm_id, s.lock_key, s.job_type, 0 FROM {starts}
    UNION ALL
    SELECT n.firm_id, {next_key}, n.job_type, w.steps + 1
    FROM waiting_group w {next_job}
    WHERE w.steps < %s
)
SELECT w.firm_id, w.lock_key, w.job_type, c.job_id, c.priority, c.scheduled_at, c.lock_limit,
    c.lock_limit - (SELECT count(*) FROM jobs_concurrencylock l
        WHERE l.firm_id = c.firm_id AND l.lock_key = c.lock_key
          AND (l.expires_at IS NULL OR l.expires_at >= {now})),
    {capped}, {rated}, {may_run}
FROM waiting_group w {candidate}
WHERE w.steps > 0
"""

FIRST_DUE_SQL = """(SELECT q.job_id FROM jobs_jobqueue q WHERE q.waiting
    AND q.firm_id = w.firm_id AND {key} = w.lock_key AND q.job_type = w.job_type
    AND q.priority = {priority} AND {due}
    ORDER BY q.scheduled_at, q.job_id LIMIT 1)"""


FIRST_GROUP = WaitingGroup(0, "", "")


@dataclass(frozen=True)
class Candidate:
    """The next job of a group; `capped` and `rated` say which limits it has yet to pass."""

    group: WaitingGroup
    job_id: UUID
    priority: int
    scheduled_at: datetime
    lock_limit: int
    free_slots: int
    capped: bool
    rated: bool

    @property
    def order(self) -> tuple[int, datetime, UUID]:
        """The sort key by which a firm's jobs are admitted."""
        return self.priority, self.scheduled_at, self.job_id


def candidates_after(group: WaitingGroup) -> tuple[list[Candidate], WaitingGroup]:
    """Return the candidates of the groups after this one, and the group to continue after.

    That is `FIRST_GROUP` when the last group was read. Jobs that cannot be admitted now (paused, no
    token, no slot of their key) are left out.
    """
    groups, candidates = _find([group], (SAME_KEY, NEXT_KEY, NEXT_FIRM), SWEEP_GROUPS)
    return candidates, groups[-1] if len(groups) == SWEEP_GROUPS else FIRST_GROUP


def candidates_of_keys(keys: Collection[tuple[int, str]]) -> list[Candidate]:
    """Return the candidates of these (firm id, lock key) pairs."""
    if not keys:
        return []
    # Most keys have no job that waits, and one probe of the index tells.
    columns = {"firm_id": Column.BIGINT, "lock_key": Column.TEXT}
    rows, params = dialects.current().rows_sql("w", columns, sorted(keys))
    waiting = fetch(
        f"""
        SELECT w.firm_id, w.lock_key FROM {rows} WHERE (
            SELECT q.job_id FROM jobs_jobqueue q
            WHERE q.waiting AND q.firm_id = w.firm_id AND {Q_KEY} = w.lock_key LIMIT 1
        ) IS NOT NULL
        """,
        params,
    )
    starts = [WaitingGroup(firm_id, lock_key, "") for firm_id, lock_key in waiting]
    return _find(starts, (SAME_KEY,), RELEASED_GROUPS)[1]


def candidates_of_firms(groups: Collection[WaitingGroup]) -> list[Candidate]:
    """Return candidates of the groups' firms: from each group on, and from the firm's start.

    So in a firm with more groups than one call reads, each released group leads to others.
    """
    starts = sorted({*groups, *(WaitingGroup(group.firm_id, "", "") for group in groups)})
    return _find(starts, (SAME_KEY, NEXT_KEY), RELEASED_GROUPS)[1]


def followers(candidate: Candidate, wanted: int) -> Iterator[Candidate]:
    """Return up to `wanted` due jobs after the candidate in its group, and then some."""
    dialect = dialects.current()
    for priority in range(candidate.priority, max(Priority) + 1):
        rows = fetch(
            f"""
            SELECT q.job_id, q.scheduled_at FROM jobs_jobqueue q
            WHERE q.waiting AND q.firm_id = %s AND {Q_KEY} = %s
              AND q.job_type = %s AND q.priority = %s AND {due_sql("q")}
            ORDER BY q.scheduled_at, q.job_id LIMIT %s
            """,
            # One more than wanted: the candidate itself comes first.
            [*candidate.group, priority, wanted + 1],
        )
        for job_id, scheduled_at in rows:
            follower = replace(
                candidate,
                job_id=dialect.read_uuid(job_id),
                priority=priority,
                scheduled_at=dialect.read_time(scheduled_at),  # type: ignore[arg-type]  # never null
            )
            if follower.job_id != candidate.job_id:
                wanted -= 1
                yield follower
        if wanted <= 0:
            return


def _find(
    starts: list[WaitingGroup], steps: tuple[str, ...], most: int
) -> tuple[list[WaitingGroup], list[Candidate]]:
    """Read up to `most` groups after each start; return them and their candidates."""
    if not starts:
        return [], []
    dialect = dialects.current()
    columns = {"firm_id": Column.BIGINT, "lock_key": Column.TEXT, "job_type": Column.TEXT}
    rows, params = dialect.rows_sql("s", columns, starts)
    first_due = ", ".join(
        FIRST_DUE_SQL.format(key=Q_KEY, priority=priority.value, due=due_sql("q"))
        for priority in Priority
    )
    found = fetch(
        CANDIDATES_SQL.format(
            starts=rows,
            next_key=_KEY.format("n"),
            next_job=dialect.job_by_id_sql("JOIN", "n", f"COALESCE({', '.join(steps)}, NULL)"),
            candidate=dialect.job_by_id_sql("LEFT JOIN", "c", f"COALESCE({first_due})"),
            now=dialect.now_sql(),
            may_run=f"{may_run_sql('c')} AND NOT {empty_bucket_sql('c')}",
            capped=capped_sql("c"),
            rated=rated_sql("c"),
        ),
        [*params, most],
    )
    candidates = [_candidate(row) for row in found if row[3] is not None and row[10]]
    # A candidate without a slot stays if another group of its key has one: they must not overtake it.
    free_keys = {one.group.key for one in candidates if one.free_slots > 0}
    return (
        [WaitingGroup(*row[:3]) for row in found],
        [one for one in candidates if one.group.key in free_keys],
    )


def _candidate(row: tuple[Any, ...]) -> Candidate:
    dialect = dialects.current()
    return Candidate(
        group=WaitingGroup(*row[:3]),
        job_id=dialect.read_uuid(row[3]),
        priority=row[4],
        scheduled_at=dialect.read_time(row[5]),  # type: ignore[arg-type]  # never null
        lock_limit=row[6],
        free_slots=row[7],
        capped=bool(row[8]),
        rated=bool(row[9]),
    )
