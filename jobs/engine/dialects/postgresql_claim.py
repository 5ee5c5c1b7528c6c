"""PostgreSQL's statements of a claim: the walk along the firms, and the take from their lines.

A claim of any kind of job goes by the index `job_claim`. One of some kinds only goes by `job_lane`,
which keeps each kind (category and type) apart: a lane. Of a capped firm only what was admitted may
be claimed, which is little: by `job_admitted`, however long the firm's line is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from uuid import UUID

from jobs.engine.dialects.base import CLAIM_COLUMNS, Column, Statement
from jobs.engine.dialects.claiming import Claimable, Leg, Share, named_sql

# Steps over the firms, leg after leg, until enough have work or the priority of those who have is
# behind. OFFSET 0 keeps each part from being worked into the next: a step is asked once, and
# compares with plain values, which is all that row level security lets into an index condition. As
# scalar subqueries, step and look cannot turn into a scan of the backlog. Each is ordered as its
# index is, to the end: any other index would have to sort, so the planner never walks a firm's
# history by one that holds finished jobs too.
FIRMS_SQL = """
WITH RECURSIVE {lanes}legs AS (
    SELECT %s::smallint[] AS priority, %s::bigint[] AS after, %s::bigint[] AS until
), walk (leg, priority, firm_id, capped, has_work, met) AS (
    SELECT 1, legs.priority[1], legs.after[1], false, false, false FROM legs
    UNION ALL
    SELECT next.leg, next.priority, turn.firm_id, gate.capped, look.has_work,
           walk.met OR look.has_work
    FROM walk CROSS JOIN LATERAL (
        SELECT here.leg, legs.priority[here.leg], legs.until[here.leg],
               coalesce(walk.firm_id, legs.after[here.leg])
        FROM legs, (SELECT walk.leg + (walk.firm_id IS NULL)::integer) AS here (leg)
        OFFSET 0
    ) AS next (leg, priority, until, after)
    CROSS JOIN LATERAL (SELECT ({step}) OFFSET 0) AS turn (firm_id)
    CROSS JOIN LATERAL (SELECT {still}, {capped} OFFSET 0) AS gate (still, capped)
    CROSS JOIN LATERAL (
        SELECT CASE WHEN gate.still THEN false
                    WHEN gate.capped THEN ({admitted}) IS NOT NULL
                    ELSE ({first}) IS NOT NULL END
        OFFSET 0
    ) AS look (has_work)
    WHERE next.priority IS NOT NULL AND (next.priority = walk.priority OR NOT walk.met)
)
SELECT priority, firm_id, capped FROM walk WHERE has_work LIMIT %s
"""
STEP_SQL = """
SELECT q.firm_id FROM jobs_jobqueue q
WHERE q.ready{in_lane} AND q.priority = next.priority
  AND q.firm_id > next.after AND q.firm_id <= next.until
ORDER BY q.firm_id, q.scheduled_at LIMIT 1
"""
FIRST_SQL = """
SELECT 1 FROM jobs_jobqueue q
WHERE q.ready{in_lane} AND q.priority = next.priority AND q.firm_id = turn.firm_id AND {claimable}
ORDER BY q.scheduled_at, q.job_id LIMIT 1
"""
FIRST_ADMITTED_SQL = """
SELECT 1 FROM jobs_jobqueue q
WHERE q.ready AND q.admitted AND q.priority = next.priority AND q.firm_id = turn.firm_id
  AND {claimable}
ORDER BY q.job_type LIMIT 1
"""

CLAIM_SQL = """
WITH RECURSIVE {lanes}picked AS MATERIALIZED (
    SELECT due.job_id FROM {shares} CROSS JOIN LATERAL ({pick}) AS due LIMIT %s
)
UPDATE jobs_jobqueue AS j
SET status = 'claimed', attempts = j.attempts + 1, claimed_at = {now},
    started_at = CASE
        WHEN %s::boolean AND (SELECT count(*) FROM picked) = 1 AND j.deaths = 0 THEN {now} END,
    lease_token = nextval('jobs_lease_token'), worker_id = %s, updated_at = {now}
FROM picked
WHERE j.job_id = picked.job_id
RETURNING {columns}, extract(epoch FROM {now} - j.scheduled_at)::double precision
"""
# A firm that was capped or stopped since the look gives nothing, without a walk along its line.
PICK_SQL = """
SELECT q.job_id, q.scheduled_at FROM jobs_jobqueue q
WHERE q.ready{in_lane} AND q.priority = %s AND q.firm_id = turn.firm_id
  AND (q.scheduled_at, q.job_id) > (turn.due_after, turn.id_after)
  AND NOT {still} AND NOT {capped} AND {claimable}
ORDER BY q.scheduled_at, q.job_id LIMIT turn.jobs FOR UPDATE SKIP LOCKED
"""
PICK_ADMITTED_SQL = """
SELECT q.job_id, q.scheduled_at FROM jobs_jobqueue q
WHERE q.ready AND q.admitted AND q.priority = %s AND q.firm_id = turn.firm_id AND {claimable}
ORDER BY q.job_type FOR UPDATE SKIP LOCKED
"""
FIRST_DUE_SQL = """
SELECT one.job_id FROM ({picks}) AS one
ORDER BY one.scheduled_at, one.job_id LIMIT turn.jobs
"""

# The kinds of jobs that are ready, one look each, and of these the wanted ones.
LANES_SQL = """kind (category, job_type) AS (
    (SELECT q.category, q.job_type FROM jobs_jobqueue q
     WHERE q.ready ORDER BY q.category, q.job_type LIMIT 1)
    UNION ALL
    SELECT next.category, next.job_type FROM kind CROSS JOIN LATERAL (
        SELECT q.category, q.job_type FROM jobs_jobqueue q
        WHERE q.ready AND (q.category, q.job_type) > (kind.category, kind.job_type)
        ORDER BY q.category, q.job_type LIMIT 1
    ) AS next
), lane AS MATERIALIZED (
    SELECT kind.category, kind.job_type FROM kind WHERE {named}
), """
IN_LANE = " AND q.category = lane.category AND q.job_type = lane.job_type"

COLUMNS = ", ".join(
    f"j.{column}::text" if column == "payload" else f"j.{column}" for column in CLAIM_COLUMNS
)
# The columns of a table of shares.
SHARE = {
    "firm_id": Column.BIGINT,
    "jobs": Column.INTEGER,
    "due_after": Column.TIME,
    "id_after": Column.UUID,
}


def walk(legs: Sequence[Leg], claimable: Claimable, most: int) -> Statement:
    """Return the walk along the legs until `most` firms have work."""
    _, params = _lanes(claimable)
    return _walk_sql(claimable), [
        *params,
        [leg.priority for leg in legs],
        [leg.after for leg in legs],
        [leg.until for leg in legs],
        *(*claimable.params, *claimable.params),
        most,
    ]


def take(
    worker_id: UUID,
    priority: int,
    shares: Sequence[Share],
    table: Statement,
    claimable: Claimable,
    now: str,
    starts: bool,
) -> Statement:
    """Return the take of these shares, which are all of capped firms or all of others.

    With `starts`, a job that is taken alone and is no suspect counts as started.
    `table` is a FROM item of them, named turn, with the columns of SHARE.
    """
    capped = shares[0].capped
    params = [] if capped else _lanes(claimable)[1]
    rows, row_params = table
    jobs = sum(share.jobs for share in shares)
    sql = _take_sql(claimable, rows, now, capped)
    return sql, [*params, *row_params, priority, *claimable.params, jobs, starts, worker_id]


@lru_cache(maxsize=16)
def _walk_sql(claimable: Claimable) -> str:
    lanes, _ = _lanes(claimable)
    in_lane = IN_LANE if lanes else ""
    return FIRMS_SQL.format(
        lanes=lanes,
        step=_least("one.firm_id", STEP_SQL.format(in_lane=in_lane), lanes),
        still=claimable.still,
        capped=claimable.capped,
        admitted=FIRST_ADMITTED_SQL.format(claimable=claimable.sql),
        first=_least("1", FIRST_SQL.format(in_lane=in_lane, claimable=claimable.sql), lanes),
    )


@lru_cache(maxsize=32)
def _take_sql(claimable: Claimable, rows: str, now: str, capped: bool) -> str:
    lanes = "" if capped else _lanes(claimable)[0]
    if capped:
        picks = PICK_ADMITTED_SQL.format(claimable=claimable.sql)
    else:
        picks = PICK_SQL.format(
            in_lane=IN_LANE if lanes else "",
            still=claimable.still,
            capped=claimable.capped,
            claimable=claimable.sql,
        )
    if lanes:
        picks = f"SELECT one.* FROM lane CROSS JOIN LATERAL ({picks}) AS one"
    if lanes or capped:
        picks = FIRST_DUE_SQL.format(picks=picks)
    return CLAIM_SQL.format(lanes=lanes, shares=rows, pick=picks, now=now, columns=COLUMNS)


def _least(column: str, look: str, lanes: str) -> str:
    """Return the look, or the least of what it finds in each lane."""
    if not lanes:
        return look
    return f"SELECT min({column}) FROM lane CROSS JOIN LATERAL ({look}) AS one"


def _lanes(claimable: Claimable) -> Statement:
    """Return the common tables of the lanes; nothing where every kind is wanted."""
    if not (claimable.categories or claimable.job_types):
        return "", []
    named, params = named_sql("kind", claimable.categories, claimable.job_types)
    return LANES_SQL.format(named=named), list(params)
