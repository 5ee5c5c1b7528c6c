"""PostgreSQL's statements of a claim: the scan for firms with work, and the take of their jobs.

A claim restricted to some categories or types reads the index `job_lane`, which keeps each lane
(category and type) apart. Any other reads `job_claim`. Of a capped firm only its few admitted jobs
may be claimed: they are read by `job_admitted`, however many jobs the firm has waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from uuid import UUID

from jobs.engine.dialects.base import Column, Statement
from jobs.engine.dialects.claim_parameters import ClaimFilter, Quota, Range, named_sql
from jobs.states import QUARANTINE_DEATHS

# A loose index scan: it goes from each firm with ready jobs to the next, range after range, until
# enough firms have work or the priority at which some had work ends. OFFSET 0 keeps the planner
# from merging the parts: each is evaluated once per firm, and the next firm is found by plain
# values, because row level security allows nothing else in an index condition. As scalar
# subqueries, `next` and `first` cannot become a scan of the backlog. Each is ordered by all columns
# of its index: any other index would have to sort, so the planner never picks one that holds
# finished jobs too.
FIRMS_SQL = """
WITH RECURSIVE {lanes}ranges AS (
    SELECT %s::smallint[] AS priority, %s::bigint[] AS after, %s::bigint[] AS until
), scan (number, priority, firm_id, capped, has_work, found) AS (
    SELECT 1, ranges.priority[1], ranges.after[1], false, false, false FROM ranges
    UNION ALL
    SELECT step.number, step.priority, firm.firm_id, limits.capped, job.has_work,
           scan.found OR job.has_work
    FROM scan CROSS JOIN LATERAL (
        SELECT here.number, ranges.priority[here.number], ranges.until[here.number],
               coalesce(scan.firm_id, ranges.after[here.number])
        FROM ranges, (SELECT scan.number + (scan.firm_id IS NULL)::integer) AS here (number)
        OFFSET 0
    ) AS step (number, priority, until, after)
    CROSS JOIN LATERAL (SELECT ({next}) OFFSET 0) AS firm (firm_id)
    CROSS JOIN LATERAL (SELECT {blocked}, {capped} OFFSET 0) AS limits (blocked, capped)
    CROSS JOIN LATERAL (
        SELECT CASE WHEN limits.blocked THEN false
                    WHEN limits.capped THEN ({admitted}) IS NOT NULL
                    ELSE ({first}) IS NOT NULL END
        OFFSET 0
    ) AS job (has_work)
    WHERE step.priority IS NOT NULL AND (step.priority = scan.priority OR NOT scan.found)
)
SELECT priority, firm_id, capped FROM scan WHERE has_work LIMIT %s
"""
NEXT_SQL = """
SELECT q.firm_id FROM jobs_jobqueue q
WHERE q.ready{in_lane} AND q.priority = step.priority
  AND q.firm_id > step.after AND q.firm_id <= step.until
ORDER BY q.firm_id, q.scheduled_at LIMIT 1
"""
FIRST_SQL = """
SELECT 1 FROM jobs_jobqueue q
WHERE q.ready{in_lane} AND q.priority = step.priority AND q.firm_id = firm.firm_id AND {claimable}
ORDER BY q.scheduled_at, q.job_id LIMIT 1
"""
FIRST_ADMITTED_SQL = """
SELECT 1 FROM jobs_jobqueue q
WHERE q.ready AND q.admitted AND q.priority = step.priority AND q.firm_id = firm.firm_id
  AND {claimable}
ORDER BY q.job_type LIMIT 1
"""

# Joined by place, which saves the way through the primary key. A row that was written since the
# snapshot has another place and is left out, so its job waits for the next claim.
CLAIM_SQL = """
WITH RECURSIVE {lanes}picked AS MATERIALIZED (
    SELECT due.place FROM {quotas} CROSS JOIN LATERAL ({pick}) AS due LIMIT %s
)
UPDATE jobs_jobqueue AS j
SET status = 'claimed', attempts = j.attempts + 1, claimed_at = {now},
    started_at = CASE
        WHEN %s::boolean AND (SELECT count(*) FROM picked) = 1 AND j.deaths < {alone_from}
            THEN {now} END,
    lease_token = nextval('jobs_lease_token'), worker_id = %s, updated_at = {now}
FROM picked
WHERE j.ctid = picked.place
RETURNING {columns}
"""
# Checks again whether the firm is blocked or capped, because that may have changed since the scan.
# Otherwise all its jobs would be read to find none.
PICK_SQL = """
SELECT q.ctid AS place, q.job_id, q.scheduled_at FROM jobs_jobqueue q
WHERE q.ready{in_lane} AND q.priority = %s AND q.firm_id = firm.firm_id
  AND (q.scheduled_at, q.job_id) > (firm.last_due, firm.last_id)
  AND NOT {blocked} AND NOT {capped} AND {claimable}
ORDER BY q.scheduled_at, q.job_id LIMIT firm.jobs FOR UPDATE SKIP LOCKED
"""
PICK_ADMITTED_SQL = """
SELECT q.ctid AS place, q.job_id, q.scheduled_at FROM jobs_jobqueue q
WHERE q.ready AND q.admitted AND q.priority = %s AND q.firm_id = firm.firm_id AND {claimable}
ORDER BY q.job_type FOR UPDATE SKIP LOCKED
"""
FIRST_DUE_SQL = """
SELECT one.place FROM ({picks}) AS one
ORDER BY one.scheduled_at, one.job_id LIMIT firm.jobs
"""

# Another loose index scan finds the lanes that have ready jobs; `lane` keeps the wanted ones.
LANES_SQL = """ready_lane (category, job_type) AS (
    (SELECT q.category, q.job_type FROM jobs_jobqueue q
     WHERE q.ready ORDER BY q.category, q.job_type LIMIT 1)
    UNION ALL
    SELECT following.category, following.job_type FROM ready_lane CROSS JOIN LATERAL (
        SELECT q.category, q.job_type FROM jobs_jobqueue q
        WHERE q.ready AND (q.category, q.job_type) > (ready_lane.category, ready_lane.job_type)
        ORDER BY q.category, q.job_type LIMIT 1
    ) AS following
), lane AS MATERIALIZED (
    SELECT ready_lane.category, ready_lane.job_type FROM ready_lane WHERE {named}
), """
IN_LANE = " AND q.category = lane.category AND q.job_type = lane.job_type"

QUOTA_COLUMNS = {
    "firm_id": Column.BIGINT,
    "jobs": Column.INTEGER,
    "last_due": Column.TIME,
    "last_id": Column.UUID,
}


def scan(ranges: Sequence[Range], wanted: ClaimFilter, most: int) -> Statement:
    """Return the scan over the ranges for the first `most` firms with work."""
    _, params = _lanes(wanted)
    return _scan_sql(wanted), [
        *params,
        [one.priority for one in ranges],
        [one.after for one in ranges],
        [one.until for one in ranges],
        *(*wanted.params, *wanted.params),
        most,
    ]


def take(
    worker_id: UUID,
    priority: int,
    quotas: Sequence[Quota],
    table: Statement,
    wanted: ClaimFilter,
    now: str,
    columns: str,
    starts: bool,
) -> Statement:
    """Return the take of these quotas, which are all of capped firms or all of others.

    With `starts`, a job that is taken alone and is not quarantined counts as started. `table` is a
    FROM item of the quotas, named firm, with the columns of QUOTA_COLUMNS; `columns` is what to
    return of each job (alias j).
    """
    capped = quotas[0].capped
    params = [] if capped else _lanes(wanted)[1]
    rows, row_params = table
    jobs = sum(quota.jobs for quota in quotas)
    sql = _take_sql(wanted, rows, now, columns, capped)
    return sql, [*params, *row_params, priority, *wanted.params, jobs, starts, worker_id]


@lru_cache(maxsize=16)
def _scan_sql(wanted: ClaimFilter) -> str:
    lanes, _ = _lanes(wanted)
    in_lane = IN_LANE if lanes else ""
    return FIRMS_SQL.format(
        lanes=lanes,
        next=_least("one.firm_id", NEXT_SQL.format(in_lane=in_lane), lanes),
        blocked=wanted.blocked,
        capped=wanted.capped,
        admitted=FIRST_ADMITTED_SQL.format(claimable=wanted.sql),
        first=_least("1", FIRST_SQL.format(in_lane=in_lane, claimable=wanted.sql), lanes),
    )


@lru_cache(maxsize=32)
def _take_sql(wanted: ClaimFilter, rows: str, now: str, columns: str, capped: bool) -> str:
    lanes = "" if capped else _lanes(wanted)[0]
    if capped:
        picks = PICK_ADMITTED_SQL.format(claimable=wanted.sql)
    else:
        picks = PICK_SQL.format(
            in_lane=IN_LANE if lanes else "",
            blocked=wanted.blocked,
            capped=wanted.capped,
            claimable=wanted.sql,
        )
    if lanes:
        picks = f"SELECT one.* FROM lane CROSS JOIN LATERAL ({picks}) AS one"
    if lanes or capped:
        picks = FIRST_DUE_SQL.format(picks=picks)
    return CLAIM_SQL.format(
        lanes=lanes,
        quotas=rows,
        pick=picks,
        now=now,
        columns=columns,
        alone_from=QUARANTINE_DEATHS,
    )


def _least(column: str, query: str, lanes: str) -> str:
    """Return the query, or the least value it finds in any lane."""
    if not lanes:
        return query
    return f"SELECT min({column}) FROM lane CROSS JOIN LATERAL ({query}) AS one"


def _lanes(wanted: ClaimFilter) -> Statement:
    """Return the common table expressions of the lanes; nothing if the claim is not restricted."""
    if not (wanted.categories or wanted.job_types):
        return "", []
    named, params = named_sql("ready_lane", wanted.categories, wanted.job_types)
    return LANES_SQL.format(named=named), list(params)
