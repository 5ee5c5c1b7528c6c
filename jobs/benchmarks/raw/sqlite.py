"""The bare loop on SQLite: claim a batch, complete it, again, until nothing is left."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import uuid4

BATCH = 500


@dataclass(frozen=True)
class SqliteLoop:
    """The picklable parameters of one process of the loop; see `PostgresLoop`."""

    path: str
    # Run on every new connection.
    pragmas: str
    job_type: str
    columns: str
    first: int
    start: int

    def run(self, begin: Callable[[], object]) -> None:
        """Connect, call `begin` when ready, and work until nothing is left."""
        connection = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        try:
            connection.executescript(self.pragmas)
            begin()
            start, whole = self.start, self.start == self.first
            while True:
                claimed = self._claim(connection, start)
                if claimed:
                    self._complete(connection, [(row[0], row[2]) for row in claimed])
                    start = max(row[1] for row in claimed)
                elif whole:
                    return
                else:
                    start, whole = self.first, True
        finally:
            connection.close()

    def _claim(self, connection: sqlite3.Connection, start: int) -> list[tuple[str, int, int]]:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE jobs_lease_token SET value = value + 1")
        found = connection.execute(
            CLAIM.format(columns=self.columns), (uuid4().hex, start, self.job_type, BATCH)
        ).fetchall()
        connection.execute("COMMIT")
        return found

    def _complete(self, connection: sqlite3.Connection, held: Sequence[tuple[str, int]]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(COMPLETE, held)
        connection.execute("COMMIT")


NOW = "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')"

CLAIM = f"""
UPDATE jobs_jobqueue
SET status = 'claimed', attempts = attempts + 1, claimed_at = {NOW},
    lease_token = (SELECT value FROM jobs_lease_token), worker_id = ?, updated_at = {NOW}
WHERE job_id IN (
    SELECT q.job_id FROM jobs_jobqueue q
    WHERE q.ready AND q.priority = 2 AND q.firm_id >= ? AND q.job_type = ?
      AND q.status = 'pending' AND q.scheduled_at <= {NOW}
    ORDER BY q.firm_id, q.scheduled_at, q.job_id LIMIT ?
)
RETURNING job_id, firm_id, lease_token, {{columns}}
"""

COMPLETE = f"""
UPDATE jobs_jobqueue
SET status = 'completed', completed_at = {NOW}, ready = 0, live_key = NULL,
    lease_token = -lease_token, updated_at = {NOW}
WHERE job_id = ? AND lease_token = ?
"""
