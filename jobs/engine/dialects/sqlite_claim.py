"""SQLite's statements of a claim: the walk along one leg, and the pick from one firm's line.

A claim of some kinds of jobs only goes by the index `job_lane`, which keeps each kind (category and
type) apart: a lane. Without one it goes by `job_claim`; of a capped firm, by `job_admitted`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django.db import connection

from jobs.engine.dialects.claiming import Claimable, Leg, Share

# As Django finds them.
PARAMETER = re.compile(r"(?<!%)%s")

# A category and a type; None: every kind of job is wanted.
Lane = tuple[str, str] | None

# The firms of one leg that have a claimable job.
FIRMS_SQL = """
WITH RECURSIVE turn (firm_id) AS (
    SELECT (SELECT q.firm_id FROM jobs_jobqueue q
            WHERE q.ready{lane} AND q.priority = %s AND q.firm_id > %s AND q.firm_id <= %s
            ORDER BY q.firm_id LIMIT 1)
    UNION ALL
    SELECT (SELECT q.firm_id FROM jobs_jobqueue q
            WHERE q.ready{lane} AND q.priority = %s AND q.firm_id > turn.firm_id AND q.firm_id <= %s
            ORDER BY q.firm_id LIMIT 1)
    FROM turn WHERE turn.firm_id IS NOT NULL
)
SELECT turn.firm_id, {capped} FROM turn
WHERE turn.firm_id IS NOT NULL AND NOT {still} AND CASE WHEN {capped} THEN (
    SELECT 1 FROM jobs_jobqueue q INDEXED BY job_admitted
    WHERE q.ready AND q.admitted AND q.priority = %s AND q.firm_id = turn.firm_id AND {claimable}
    LIMIT 1
) ELSE (
    SELECT 1 FROM jobs_jobqueue q
    WHERE q.ready{lane} AND q.priority = %s AND q.firm_id = turn.firm_id AND {claimable} LIMIT 1
) END
LIMIT %s
"""
# The next kind of ready jobs: in two looks, since one with (category, job_type) > (…, …) would begin
# at the entries of the kind before and walk along all of them.
NEXT_TYPE_SQL = """
SELECT q.category, q.job_type FROM jobs_jobqueue q
WHERE q.ready AND q.category = %s AND q.job_type > %s ORDER BY q.job_type LIMIT 1
"""
NEXT_CATEGORY_SQL = """
SELECT q.category, q.job_type FROM jobs_jobqueue q
WHERE q.ready AND q.category > %s ORDER BY q.category, q.job_type LIMIT 1
"""
PICK_SQL = """
SELECT q.scheduled_at, q.job_id FROM jobs_jobqueue q
WHERE q.ready{lane} AND q.priority = %s AND q.firm_id = %s
  AND (q.scheduled_at, q.job_id) > (%s, %s) AND {claimable}
ORDER BY q.scheduled_at, q.job_id LIMIT %s
"""
PICK_ADMITTED_SQL = """
SELECT q.scheduled_at, q.job_id FROM jobs_jobqueue q INDEXED BY job_admitted
WHERE q.ready AND q.admitted AND q.priority = %s AND q.firm_id = %s AND {claimable}
ORDER BY q.scheduled_at, q.job_id LIMIT %s
"""


def lanes(cursor: Any, claimable: Claimable) -> Sequence[Lane]:
    """Return the wanted kinds of jobs of which some are ready."""
    if not (claimable.categories or claimable.job_types):
        return [None]
    found: list[tuple[str, str]] = []
    kind = _kind_after(cursor, ("", ""))
    while kind is not None:
        found.append(kind)
        kind = _kind_after(cursor, kind)
    return [
        (category, job_type)
        for category, job_type in found
        if category in (claimable.categories or (category,))
        and job_type in (claimable.job_types or (job_type,))
    ]


def firms_on(
    cursor: Any, leg: Leg, wanted: Sequence[Lane], claimable: Claimable, most: int
) -> list[tuple[int, bool]]:
    """Return the first `most` firms of the leg with a claimable job, and whether each is capped."""
    met: dict[int, bool] = {}
    for lane in wanted:
        sql = FIRMS_SQL.format(
            lane=_sql_of(lane),
            still=claimable.still,
            capped=claimable.capped,
            claimable=claimable.sql,
        )
        kind = lane or ()
        cursor.execute(
            sql,
            [
                *(*kind, leg.priority, leg.after, leg.until),
                *(*kind, leg.priority, leg.until),
                *(leg.priority, *claimable.params),
                *(*kind, leg.priority, *claimable.params, most),
            ],
        )
        met |= {firm_id: bool(capped) for firm_id, capped in cursor.fetchall()}
    return sorted(met.items())[:most]


def pick(
    cursor: Any,
    priority: int,
    share: Share,
    mark: Sequence[str],
    wanted: Sequence[Lane],
    claimable: Claimable,
) -> list[str]:
    """Return the ids of the jobs that make up the share; `mark` is its own, as it is stored."""
    if share.capped:
        admitted = _fetch(
            cursor,
            PICK_ADMITTED_SQL.format(claimable=claimable.sql),
            [priority, share.firm_id, *claimable.params, share.jobs],
        )
        return [job_id for _, job_id in admitted]
    due: list[tuple[str, str]] = []
    for lane in wanted:
        due += _fetch(
            cursor,
            PICK_SQL.format(lane=_sql_of(lane), claimable=claimable.sql),
            [*(lane or ()), priority, share.firm_id, *mark, *claimable.params, share.jobs],
        )
    return [job_id for _, job_id in sorted(due)[: share.jobs]]


def _fetch(cursor: Any, sql: str, params: list[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of one firm's look, of which there are many.

    Django takes longer over its wording than it takes to run; so it comes by Django only where
    somebody listens to what is run.
    """
    if connection.execute_wrappers or connection.queries_logged:
        cursor.execute(sql, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows
    with connection.wrap_database_errors:
        database: sqlite3.Connection = connection.connection
        return database.execute(_worded(sql), params).fetchall()


@lru_cache(maxsize=64)
def _worded(sql: str) -> str:
    """Return the statement with the module's own marks for parameters."""
    return PARAMETER.sub("?", sql).replace("%%", "%")


def _sql_of(lane: Lane) -> str:
    return "" if lane is None else " AND q.category = %s AND q.job_type = %s"


def _kind_after(cursor: Any, kind: tuple[str, str]) -> tuple[str, str] | None:
    cursor.execute(NEXT_TYPE_SQL, kind)
    following: tuple[str, str] | None = cursor.fetchone()
    if following is None:
        cursor.execute(NEXT_CATEGORY_SQL, kind[:1])
        following = cursor.fetchone()
    return following
