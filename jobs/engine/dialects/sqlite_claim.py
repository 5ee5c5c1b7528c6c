"""SQLite's statements of a claim: the firm scan over one range, and the pick of one firm's jobs.

A claim restricted to some categories or types reads the index `job_lane`, which keeps each lane
(category and type) apart. Any other reads `job_claim`; of a capped firm, `job_admitted`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobs.engine.dialects.claim_parameters import ClaimFilter, Quota, Range

# A category and a type; None: the claim is not restricted.
Lane = tuple[str, str] | None

# A loose index scan: from each firm with ready jobs to the next, keeping those with a claimable one.
FIRMS_SQL = """
WITH RECURSIVE firm (firm_id) AS (
    SELECT (SELECT q.firm_id FROM jobs_jobqueue q
            WHERE q.ready{lane} AND q.priority = %s AND q.firm_id > %s AND q.firm_id <= %s
            ORDER BY q.firm_id LIMIT 1)
    UNION ALL
    SELECT (SELECT q.firm_id FROM jobs_jobqueue q
            WHERE q.ready{lane} AND q.priority = %s AND q.firm_id > firm.firm_id AND q.firm_id <= %s
            ORDER BY q.firm_id LIMIT 1)
    FROM firm WHERE firm.firm_id IS NOT NULL
)
SELECT firm.firm_id, {capped} FROM firm
WHERE firm.firm_id IS NOT NULL AND NOT {blocked} AND CASE WHEN {capped} THEN (
    SELECT 1 FROM jobs_jobqueue q INDEXED BY job_admitted
    WHERE q.ready AND q.admitted AND q.priority = %s AND q.firm_id = firm.firm_id AND {claimable}
    LIMIT 1
) ELSE (
    SELECT 1 FROM jobs_jobqueue q
    WHERE q.ready{lane} AND q.priority = %s AND q.firm_id = firm.firm_id AND {claimable} LIMIT 1
) END
LIMIT %s
"""
# The next lane with ready jobs, by two statements, because one with (category, job_type) > (…, …)
# would read all entries of the lane before.
NEXT_TYPE_SQL = """
SELECT q.category, q.job_type FROM jobs_jobqueue q
WHERE q.ready AND q.category = %s AND q.job_type > %s ORDER BY q.job_type LIMIT 1
"""
NEXT_CATEGORY_SQL = """
SELECT q.category, q.job_type FROM jobs_jobqueue q
WHERE q.ready AND q.category > %s ORDER BY q.category, q.job_type LIMIT 1
"""
PICK_SQL = """
SELECT q.scheduled_at || '', q.job_id FROM jobs_jobqueue q
WHERE q.ready{lane} AND q.priority = %s AND q.firm_id = %s
  AND (q.scheduled_at, q.job_id) > (%s, %s) AND {claimable}
ORDER BY q.scheduled_at, q.job_id LIMIT %s
"""
PICK_ADMITTED_SQL = """
SELECT q.scheduled_at || '', q.job_id FROM jobs_jobqueue q INDEXED BY job_admitted
WHERE q.ready AND q.admitted AND q.priority = %s AND q.firm_id = %s AND {claimable}
ORDER BY q.scheduled_at, q.job_id LIMIT %s
"""


def ready_lanes(cursor: Any, wanted: ClaimFilter) -> Sequence[Lane]:
    """Return the wanted lanes that have ready jobs."""
    if not (wanted.categories or wanted.job_types):
        return [None]
    found: list[tuple[str, str]] = []
    lane = _lane_after(cursor, ("", ""))
    while lane is not None:
        found.append(lane)
        lane = _lane_after(cursor, lane)
    return [
        (category, job_type)
        for category, job_type in found
        if category in (wanted.categories or (category,))
        and job_type in (wanted.job_types or (job_type,))
    ]


def firms_in(
    cursor: Any, firms: Range, lanes: Sequence[Lane], wanted: ClaimFilter, most: int
) -> list[tuple[int, bool]]:
    """Return the first `most` firms with a claimable job, and whether each is capped."""
    found: dict[int, bool] = {}
    for lane in lanes:
        sql = FIRMS_SQL.format(
            lane=_sql_of(lane),
            blocked=wanted.blocked,
            capped=wanted.capped,
            claimable=wanted.sql,
        )
        named = lane or ()
        cursor.execute(
            sql,
            [
                *(*named, firms.priority, firms.after, firms.until),
                *(*named, firms.priority, firms.until),
                *(firms.priority, *wanted.params),
                *(*named, firms.priority, *wanted.params, most),
            ],
        )
        found |= {firm_id: bool(capped) for firm_id, capped in cursor.fetchall()}
    return sorted(found.items())[:most]


def pick(
    cursor: Any,
    priority: int,
    quota: Quota,
    after: Sequence[Any],
    lanes: Sequence[Lane],
    wanted: ClaimFilter,
) -> list[str]:
    """Return the ids of the jobs that fill the quota; `after` is its position as it is stored."""
    of_firm, rest = [priority, quota.firm_id], [*wanted.params, quota.jobs]
    if quota.capped:
        due = _fetch(cursor, PICK_ADMITTED_SQL.format(claimable=wanted.sql), [*of_firm, *rest])
    else:
        due = []
        for lane in lanes:
            sql = PICK_SQL.format(lane=_sql_of(lane), claimable=wanted.sql)
            due += _fetch(cursor, sql, [*(lane or ()), *of_firm, *after, *rest])
    return [job_id for _, job_id in sorted(due)[: quota.jobs]]


def _fetch(cursor: Any, sql: str, params: list[Any]) -> list[tuple[Any, ...]]:
    cursor.execute(sql, params)
    rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _sql_of(lane: Lane) -> str:
    return "" if lane is None else " AND q.category = %s AND q.job_type = %s"


def _lane_after(cursor: Any, lane: tuple[str, str]) -> tuple[str, str] | None:
    cursor.execute(NEXT_TYPE_SQL, lane)
    following: tuple[str, str] | None = cursor.fetchone()
    if following is None:
        cursor.execute(NEXT_CATEGORY_SQL, lane[:1])
        following = cursor.fetchone()
    return following
