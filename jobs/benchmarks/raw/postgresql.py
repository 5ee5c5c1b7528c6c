"""The bare loop on PostgreSQL: claim a batch, complete it, again, until nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

import psycopg

BATCH = 500


@dataclass(frozen=True)
class PostgresLoop:
    """The picklable parameters of one process of the loop.

    It begins with the firm `start` and wraps once to `first`, the lowest one.
    """

    address: str
    job_type: str
    columns: str
    first: int
    start: int

    def run(self, begin: Callable[[], object]) -> None:
        """Connect, call `begin` when ready, and work until nothing is left."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            # Bypasses row level security as the engine does, for the whole session.
            connection.execute("SELECT set_config('mailroom.engine', 'on', false)")
            cursor = connection.cursor(binary=True)
            begin()
            start, whole = self.start, self.start == self.first
            while True:
                params = {"worker": uuid4(), "start": start, "type": self.job_type, "n": BATCH}
                claimed = cursor.execute(CLAIM.format(columns=self.columns), params).fetchall()
                if claimed:
                    claimed.sort()
                    held = {
                        "ids": [row[0] for row in claimed],
                        "tokens": [row[2] for row in claimed],
                    }
                    cursor.execute(COMPLETE, held)
                    start = max(row[1] for row in claimed)
                elif whole:
                    return
                else:
                    start, whole = self.first, True


CLAIM = """
WITH picked AS MATERIALIZED (
    SELECT q.job_id FROM jobs_jobqueue q
    WHERE q.ready AND q.priority = 2 AND q.firm_id >= %(start)b AND q.job_type = %(type)s
      AND q.status = 'pending' AND q.scheduled_at <= statement_timestamp()
    ORDER BY q.firm_id, q.scheduled_at, q.job_id LIMIT %(n)b
    FOR UPDATE SKIP LOCKED
)
UPDATE jobs_jobqueue AS j
SET status = 'claimed', attempts = j.attempts + 1, claimed_at = statement_timestamp(),
    lease_token = nextval('jobs_lease_token'), worker_id = %(worker)b,
    updated_at = statement_timestamp()
FROM picked WHERE j.job_id = picked.job_id
RETURNING j.job_id, j.firm_id, j.lease_token, {columns}
"""

COMPLETE = """
UPDATE jobs_jobqueue AS j
SET status = 'completed', completed_at = statement_timestamp(), ready = false, live_key = NULL,
    lease_token = -j.lease_token, updated_at = statement_timestamp()
FROM unnest(%(ids)b::uuid[], %(tokens)b::bigint[]) AS r (id, token)
WHERE j.job_id = r.id AND j.lease_token = r.token
"""
