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
from jobs.engine.limit_sql import capped_sql, due_sql, key_sql, may_run_sql, rated_sql
from jobs.engine.locks import WaitingGroup, lock_firm_sql
from jobs.engine.token_bucket import empty_bucket_sql
from jobs.engine.transactions import fetch
from jobs.states import Priority
from tenants.models import Firm

# How many groups one call reads: in a step of the sweep, and after each released key or group.
SWEEP_GROUPS = 500
RELEASED_GROUPS = 100
# ... and how many firms after each released key of all firms.
RELEASED_FIRMS = 100

Q_KEY, Q_LIMIT_KEY = key_sql("q", "lock_key"), key_sql("q", "limit_key")
ADMISSION_ORDER = "q.priority, q.scheduled_at, q.job_id"

# The group after `w`: the next limit key of its type, else the next type of its lock key, else its
# firm's next lock key, else the next firm. Each is ordered by all columns of the waiting index, so
# that the planner uses no other index.
SAME_TYPE = f"""(SELECT q.job_id FROM jobs_jobqueue q WHERE q.waiting
    AND q.firm_id = w.firm_id AND {Q_KEY} = w.lock_key AND q.job_type = w.job_type
    AND {Q_LIMIT_KEY} > w.limit_key
    ORDER BY {Q_LIMIT_KEY}, {ADMISSION_ORDER} LIMIT 1)"""
SAME_KEY = f"""(SELECT q.job_id FROM jobs_jobqueue q WHERE q.waiting
    AND q.firm_id = w.firm_id AND {Q_KEY} = w.lock_key AND q.job_type > w.job_type
    ORDER BY q.job_type, {Q_LIMIT_KEY}, {ADMISSION_ORDER} LIMIT 1)"""
NEXT_KEY = f"""(SELECT q.job_id FROM jobs_jobqueue q WHERE q.waiting
    AND q.firm_id = w.firm_id AND {Q_KEY} > w.lock_key
    ORDER BY {Q_KEY}, q.job_type, {Q_LIMIT_KEY}, {ADMISSION_ORDER} LIMIT 1)"""
NEXT_FIRM = f"""(SELECT q.job_id FROM jobs_jobqueue q WHERE q.waiting AND q.firm_id > w.firm_id
    ORDER BY q.firm_id, {Q_KEY}, q.job_type, {Q_LIMIT_KEY}, {ADMISSION_ORDER} LIMIT 1)"""
WITHIN_KEY = (SAME_TYPE, SAME_KEY)
WITHIN_FIRM = (*WITHIN_KEY, NEXT_KEY)
ALL_FIRMS = (*WITHIN_FIRM, NEXT_FIRM)

CANDIDATES_SQL = """
WITH RECURSIVE waiting_group (firm_id, lock_key, job_type, limit_key, steps) AS (
    SELECT s.firm_id, s.lock_key, s.job_type, s.limit_key, 0 FROM {starts}
    UNION ALL
    SELECT n.firm_id, {next_key}, n.job_type, {next_limit_key}, w.steps + 1
    FROM waiting_group w {next_job}
    WHERE w.steps < CAST(%s AS integer)
)
SELECT w.firm_id, w.lock_key, w.job_type, w.limit_key, c.job_id, c.priority, c.scheduled_at,
    c.limit_units, c.lock_limit,
    c.lock_limit - (SELECT count(*) FROM jobs_concurrencylock l
        WHERE l.firm_id = {lock_firm} AND l.lock_key = c.lock_key
          AND (l.expires_at IS NULL OR l.expires_at >= {now})),
    {capped}, {rated}, c.lock_counted_by, {lock_firm}, {may_run}
FROM waiting_group w {candidate}
WHERE w.steps > 0
"""

# The firms after the start's that have waiting jobs, each with the start's key. The order is again
# that of the waiting index, because the index of all jobs also holds the settled ones.
WAITING_FIRMS_SQL = f"""
WITH RECURSIVE waiting_firm (firm_id, lock_key, steps) AS (
    SELECT s.firm_id, s.lock_key, 0 FROM {{starts}}
    UNION ALL
    SELECT (SELECT q.firm_id FROM jobs_jobqueue q WHERE q.waiting AND q.firm_id > w.firm_id
        ORDER BY q.firm_id, {Q_KEY}, q.job_type, {Q_LIMIT_KEY}, {ADMISSION_ORDER} LIMIT 1), w.lock_key, w.steps + 1
    FROM waiting_firm w WHERE w.firm_id IS NOT NULL AND w.steps < %s
)
SELECT w.firm_id, w.lock_key FROM waiting_firm w WHERE w.steps > 0 AND w.firm_id IS NOT NULL
"""

FIRST_DUE_SQL = """(SELECT q.job_id FROM jobs_jobqueue q WHERE q.waiting
    AND q.firm_id = w.firm_id AND {key} = w.lock_key AND q.job_type = w.job_type
    AND {limit_key} = w.limit_key AND q.priority = {priority} AND {due}
    ORDER BY q.scheduled_at, q.job_id LIMIT 1)"""


FIRST_GROUP = WaitingGroup(0, "", "", "")
# A type and a limit key, empty for none: which rates apply to a firm's jobs.
Kind = tuple[str, str]


@dataclass(frozen=True)
class Candidate:
    """The next job of a group; `capped` and `rated` say which limits it has yet to pass."""

    group: WaitingGroup
    job_id: UUID
    priority: int
    scheduled_at: datetime
    limit_units: int
    lock_limit: int
    free_slots: int
    capped: bool
    rated: bool
    lock_counted_by: str
    # The firm that the slots of its lock key belong to.
    lock_firm_id: int

    @property
    def lock(self) -> tuple[int, str]:
        """The firm of the lock's slots, and the key; candidates with the same pair share slots."""
        return self.lock_firm_id, self.group.lock_key

    @property
    def kind(self) -> Kind:
        """Its type and its limit key."""
        return self.group.job_type, self.group.limit_key

    @property
    def order(self) -> tuple[int, datetime, UUID]:
        """The sort key by which a firm's jobs are admitted."""
        return self.priority, self.scheduled_at, self.job_id


def candidates_after(group: WaitingGroup) -> tuple[list[Candidate], WaitingGroup]:
    """Return the candidates of the groups after this one, and the group to continue after.

    The group is `FIRST_GROUP` once the last group was read. Jobs that cannot be admitted now
    (paused, no token, no slot of their key) are left out.
    """
    groups, candidates = _find([group], ALL_FIRMS, SWEEP_GROUPS)
    return candidates, groups[-1] if len(groups) == SWEEP_GROUPS else FIRST_GROUP


def candidates_of_keys(keys: Collection[tuple[int, str]]) -> list[Candidate]:
    """Return the candidates of these (firm id, lock key) pairs."""
    if not keys:
        return []
    # Most keys have no waiting job, and one lookup in the index finds that out.
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
    starts = [WaitingGroup(firm_id, lock_key, "", "") for firm_id, lock_key in waiting]
    return _find(starts, WITHIN_KEY, RELEASED_GROUPS)[1]


def keys_in_waiting_firms(keys: Collection[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return these keys paired with each firm that has waiting jobs.

    If there are very many firms: the next ones after the firm that gave back the slot, and the
    first ones of all; the sweep finds the others.
    """
    if not keys:
        return []
    columns = {"firm_id": Column.BIGINT, "lock_key": Column.TEXT}
    starts = sorted({*keys, *((0, lock_key) for _, lock_key in keys)})
    rows, params = dialects.current().rows_sql("s", columns, starts)
    found = fetch(WAITING_FIRMS_SQL.format(starts=rows), [*params, RELEASED_FIRMS])
    return [(firm_id, lock_key) for firm_id, lock_key in found]


def candidates_of_firms(groups: Collection[WaitingGroup]) -> list[Candidate]:
    """Return candidates of the groups' firms: from each group on, and from the firm's start.

    So if a firm has more groups than one call reads, each released group leads to others.
    """
    starts = sorted({*groups, *(WaitingGroup(group.firm_id, "", "", "") for group in groups)})
    return _find(starts, WITHIN_FIRM, RELEASED_GROUPS)[1]


def followers(candidate: Candidate, wanted: int) -> Iterator[Candidate]:
    """Yield up to `wanted` due jobs after the candidate in its group, or a few more."""
    dialect = dialects.current()
    for priority in range(candidate.priority, max(Priority) + 1):
        rows = fetch(
            f"""
            SELECT q.job_id, q.scheduled_at, q.limit_units FROM jobs_jobqueue q
            WHERE q.waiting AND q.firm_id = %s AND {Q_KEY} = %s
              AND q.job_type = %s AND {Q_LIMIT_KEY} = %s AND q.priority = %s AND {due_sql("q")}
              AND q.lock_counted_by = %s
            ORDER BY q.scheduled_at, q.job_id LIMIT %s
            """,
            # One more than wanted: the candidate itself comes first.
            [*candidate.group, priority, candidate.lock_counted_by, wanted + 1],
        )
        for job_id, scheduled_at, limit_units in rows:
            follower = replace(
                candidate,
                job_id=dialect.read_uuid(job_id),
                priority=priority,
                scheduled_at=dialect.read_time(scheduled_at),
                limit_units=limit_units,
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
    columns = {"firm_id": Column.BIGINT} | dict.fromkeys(WaitingGroup._fields[1:], Column.TEXT)
    rows, params = dialect.rows_sql("s", columns, starts)
    first_due = ", ".join(
        FIRST_DUE_SQL.format(
            key=Q_KEY, limit_key=Q_LIMIT_KEY, priority=priority.value, due=due_sql("q")
        )
        for priority in Priority
    )
    found = fetch(
        CANDIDATES_SQL.format(
            starts=rows,
            next_key=key_sql("n", "lock_key"),
            next_limit_key=key_sql("n", "limit_key"),
            next_job=dialect.job_by_id_sql("JOIN", "n", f"COALESCE({', '.join(steps)})"),
            candidate=dialect.job_by_id_sql("LEFT JOIN", "c", f"COALESCE({first_due})"),
            now=dialect.now_sql(),
            may_run=f"{may_run_sql('c')} AND NOT {empty_bucket_sql('c')}",
            capped=capped_sql("c"),
            rated=rated_sql("c"),
            lock_firm=lock_firm_sql("c"),
        ),
        [*params, most],
        # Planning this takes fifty times as long as running it, and the sweep runs it often.
        prepared=True,
    )
    candidates = [_candidate(row) for row in found if row[4] is not None and row[-1]]
    # A candidate without a slot stays if another group of its key has one, because that group must
    # not overtake it.
    free_locks = {one.lock for one in candidates if one.free_slots > 0}
    return (
        [WaitingGroup(*row[:4]) for row in found],
        [one for one in candidates if one.lock in free_locks],
    )


def _candidate(row: tuple[Any, ...]) -> Candidate:
    dialect = dialects.current()
    return Candidate(
        group=WaitingGroup(*row[:4]),
        job_id=dialect.read_uuid(row[4]),
        priority=row[5],
        scheduled_at=dialect.read_time(row[6]),
        limit_units=row[7],
        lock_limit=row[8],
        free_slots=row[9],
        capped=bool(row[10]),
        rated=bool(row[11]),
        lock_counted_by=row[12],
        # A flush deletes the system firm; `system()` creates it again.
        lock_firm_id=Firm.objects.system().pk if row[13] is None else row[13],
    )
