"""Bare inserts: the rows that an enqueue stored, stored again by plain SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Protocol

import psycopg
from django.db import connection

from jobs.benchmarks.raw.address import sqlite_address
from jobs.engine.wakeup import main_conninfo
from jobs.models import JobQueue
from tenants.scope import ENGINE_SETTING

Row = tuple[Any, ...]
COLUMNS = [field.attname for field in JobQueue._meta.concrete_fields]
NAMES = ", ".join(COLUMNS)
# COPY refuses a table with row level security: it gets a copy of the table without.
TWIN = "jobs_bench_twin"


class Inserts(Protocol):
    """A bare connection that stores jobs."""

    def rows(self, firm_ids: Sequence[int]) -> list[Row]:
        """Return the firms' jobs, as they can be stored again."""

    def insert_many(self, rows: Sequence[Row]) -> None:
        """Store them in the fastest way, with one commit."""

    def insert(self, row: Row) -> None:
        """Store one, with a commit of its own."""


@contextmanager
def bare_inserts() -> Iterator[Inserts]:
    """Connect to the configured database."""
    if connection.vendor == "sqlite":
        address = sqlite_address()
        with closing(
            sqlite3.connect(address.path, timeout=60, isolation_level=None)
        ) as sqlite_connection:
            sqlite_connection.executescript(address.pragmas)
            yield SqliteInserts(sqlite_connection)
        return
    with psycopg.connect(main_conninfo(), autocommit=True) as postgresql_connection:
        # Bypasses row level security as the engine does, for the whole session.
        postgresql_connection.execute("SELECT set_config(%s, 'on', false)", [ENGINE_SETTING])
        with _twin(postgresql_connection):
            yield PostgresInserts(postgresql_connection)


@contextmanager
def _twin(connection: psycopg.Connection) -> Iterator[None]:
    connection.execute(f"DROP TABLE IF EXISTS {TWIN}")
    connection.execute(
        f"CREATE TABLE {TWIN} (LIKE jobs_jobqueue INCLUDING ALL) WITH (fillfactor = 45)"
    )
    try:
        yield
    finally:
        connection.execute(f"DROP TABLE {TWIN}")


class PostgresInserts:
    """COPY by the batch, INSERT one by one."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._insert = f"INSERT INTO jobs_jobqueue ({NAMES}) VALUES ({_marks('%s')})"

    def rows(self, firm_ids: Sequence[int]) -> list[Row]:
        """Read them, JSON as text."""
        json = ("payload", "result")
        wanted = ", ".join(f"{name}::text" if name in json else name for name in COLUMNS)
        sql = f"SELECT {wanted} FROM jobs_jobqueue WHERE firm_id = ANY(%s)"
        return self._connection.execute(sql, [list(firm_ids)]).fetchall()

    def insert_many(self, rows: Sequence[Row]) -> None:
        """COPY into the copy of the table."""
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {TWIN} ({NAMES}) FROM STDIN") as copy,
        ):
            for row in rows:
                copy.write_row(row)

    def insert(self, row: Row) -> None:
        """INSERT into the table itself."""
        self._connection.execute(self._insert, row)


class SqliteInserts:
    """One prepared INSERT, by the batch and one by one."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._insert = f"INSERT INTO jobs_jobqueue ({NAMES}) VALUES ({_marks('?')})"

    def rows(self, firm_ids: Sequence[int]) -> list[Row]:
        """Read them."""
        sql = f"SELECT {NAMES} FROM jobs_jobqueue WHERE firm_id BETWEEN ? AND ?"
        return self._connection.execute(sql, (firm_ids[0], firm_ids[-1])).fetchall()

    def insert_many(self, rows: Sequence[Row]) -> None:
        """Insert them in one transaction."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(self._insert, rows)
        self._connection.execute("COMMIT")

    def insert(self, row: Row) -> None:
        """Insert it."""
        self._connection.execute(self._insert, row)


def _marks(mark: str) -> str:
    return ", ".join([mark] * len(COLUMNS))
