"""Bare SQL on the queue's table: the upper bound for the queue.

The processes of the loop import neither Django nor the queue.
"""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from typing import Any
from uuid import uuid4

import psycopg

BATCH = 500
START_SECONDS = 60.0

# Claims and completes a batch, beginning with this firm; returns the highest firm in it, None if no
# job was left.
Serve = Callable[[int], int | None]


@dataclass(frozen=True)
class Loop:
    """The picklable parameters of one process of the loop.

    It begins with the firm `start` and wraps once to `first`, the lowest one.
    """

    vendor: str
    # The connection string of PostgreSQL, the path of the SQLite file.
    address: str
    # Run on a new connection to SQLite.
    pragmas: str
    job_type: str
    columns: str
    first: int
    start: int


def run(loop: Loop, ready: Barrier) -> None:
    """Claim and complete jobs until nothing is left, once all processes are ready."""
    # Ctrl-C reaches the whole group; the parent ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connected = _on_sqlite if loop.vendor == "sqlite" else _on_postgresql
    with connected(loop) as serve:
        ready.wait(START_SECONDS)
        start, whole = loop.start, loop.start == loop.first
        while True:
            last = serve(start)
            if last is not None:
                start = last
            elif whole:
                return
            else:
                start, whole = loop.first, True


def connect_to_postgresql(conninfo: str) -> psycopg.Connection:
    """Connect past row level security, as the engine does, for the whole session."""
    connection = psycopg.connect(conninfo, autocommit=True)
    connection.execute("SELECT set_config('mailroom.engine', 'on', false)")
    return connection


def connect_to_sqlite(path: str, pragmas: str) -> AbstractContextManager[sqlite3.Connection]:
    """Connect in autocommit mode."""
    connection = sqlite3.connect(path, timeout=60, isolation_level=None)
    connection.executescript(pragmas)
    return closing(connection)


def sqlite_address(connection: Any) -> tuple[str, str]:
    """Return the path and the pragmas of Django's connection to SQLite."""
    pragmas = connection.settings_dict["OPTIONS"].get("init_command", "")
    return str(connection.get_connection_params()["database"]), pragmas


@contextmanager
def _on_postgresql(loop: Loop) -> Iterator[Serve]:
    with connect_to_postgresql(loop.address) as connection:
        cursor = connection.cursor(binary=True)
        claim = CLAIM_ON_POSTGRESQL.format(columns=loop.columns)

        def serve(start: int) -> int | None:
            params = {"worker": uuid4(), "start": start, "type": loop.job_type, "n": BATCH}
            claimed = sorted(cursor.execute(claim, params).fetchall())
            if not claimed:
                return None
            held = {"ids": [row[0] for row in claimed], "tokens": [row[2] for row in claimed]}
            cursor.execute(COMPLETE_ON_POSTGRESQL, held)
            return max(int(row[1]) for row in claimed)

        yield serve


@contextmanager
def _on_sqlite(loop: Loop) -> Iterator[Serve]:
    with connect_to_sqlite(loop.address, loop.pragmas) as connection:
        claim = CLAIM_ON_SQLITE.format(columns=loop.columns)

        def serve(start: int) -> int | None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE jobs_lease_token SET value = value + 1")
            params = (uuid4().hex, start, loop.job_type, BATCH)
            claimed = connection.execute(claim, params).fetchall()
            connection.execute("COMMIT")
            if not claimed:
                return None
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(COMPLETE_ON_SQLITE, [(row[0], row[2]) for row in claimed])
            connection.execute("COMMIT")
            return max(int(row[1]) for row in claimed)

        yield serve


CLAIM_ON_POSTGRESQL = """
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
COMPLETE_ON_POSTGRESQL = """
UPDATE jobs_jobqueue AS j
SET status = 'completed', completed_at = statement_timestamp(), ready = false, live_key = NULL,
    lease_token = -j.lease_token, updated_at = statement_timestamp()
FROM unnest(%(ids)b::uuid[], %(tokens)b::bigint[]) AS r (id, token)
WHERE j.job_id = r.id AND j.lease_token = r.token
"""

_NOW = "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')"
CLAIM_ON_SQLITE = f"""
UPDATE jobs_jobqueue
SET status = 'claimed', attempts = attempts + 1, claimed_at = {_NOW},
    lease_token = (SELECT value FROM jobs_lease_token), worker_id = ?, updated_at = {_NOW}
WHERE job_id IN (
    SELECT q.job_id FROM jobs_jobqueue q
    WHERE q.ready AND q.priority = 2 AND q.firm_id >= ? AND q.job_type = ?
      AND q.status = 'pending' AND q.scheduled_at <= {_NOW}
    ORDER BY q.firm_id, q.scheduled_at, q.job_id LIMIT ?
)
RETURNING job_id, firm_id, lease_token, {{columns}}
"""
COMPLETE_ON_SQLITE = f"""
UPDATE jobs_jobqueue
SET status = 'completed', completed_at = {_NOW}, ready = 0, live_key = NULL,
    lease_token = -lease_token, updated_at = {_NOW}
WHERE job_id = ? AND lease_token = ?
"""
