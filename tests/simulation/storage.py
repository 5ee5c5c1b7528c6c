"""A database in memory, new for every run, with the tests' tables and a virtual clock.

All virtual threads share one connection. A transaction begins and ends in one step, so no two are
open at once, as with SQLite's write lock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import pytest
from django.db import connection
from django.db.backends.sqlite3.base import SQLiteCursorWrapper

from jobs.engine.dialects.base import Dialect
from tenants.models import SYSTEM_SLUG, Firm
from tests.support.databases import default_database
from tests.support.history import recorded_history

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
FIRMS = ("acme", "globex")
# Handlers write to this table in the transaction that completes their job.
EFFECTS = "CREATE TABLE test_effect (job_id text)"


@contextmanager
def database_in_memory() -> Iterator[None]:
    """Make an empty database in memory the default one inside the block."""
    with default_database("sqlite://:memory:"):
        connection.ensure_connection()
        yield
        # Django keeps such a connection open, because closing it deletes the data.
        connection.connection.close()


def first_content() -> sqlite3.Connection:
    """Return the database with which every run begins: the tests' tables, and the firms."""
    content = sqlite3.connect(":memory:")
    # A separate connection, because the tests' own may be in a transaction.
    tests_own = sqlite3.connect(connection.settings_dict["NAME"])
    with database_in_memory(), closing(tests_own):
        tests_own.backup(connection.connection)
        Firm.objects.all()._raw_delete("default")
        for slug in (SYSTEM_SLUG, *FIRMS):
            Firm.objects.create(name=slug, slug=slug)
        with recorded_history():
            connection.connection.execute(EFFECTS)
            connection.connection.backup(content)
    return content


def begin_anew(
    content: sqlite3.Connection, now: Callable[[], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restore the first content of the database, and set its clock: `now` returns seconds."""
    raw: sqlite3.Connection = connection.connection
    content.backup(raw)

    @lru_cache(maxsize=1)
    def spell(seconds: float) -> str:
        moment = (BEGIN + timedelta(seconds=seconds)).replace(tzinfo=None)
        return f"{moment.isoformat(sep=' ', timespec='milliseconds')}000"

    # SQLite may treat the function as a constant, so the time is that of the statement.
    raw.create_function("virtual_now", 0, lambda: spell(now()), deterministic=True)
    monkeypatch.setattr(Dialect, "now_sql", lambda _: "virtual_now()")
    # Converting a statement for SQLite takes longer than running it, so the result is cached.
    convert = SQLiteCursorWrapper.convert_query
    monkeypatch.setattr(SQLiteCursorWrapper, "convert_query", _remembered(convert))


def _remembered(convert: Any) -> Any:
    known: dict[str, str] = {}

    def convert_query(cursor: Any, query: str, *, param_names: list[str] | None = None) -> str:
        if param_names is not None:
            return str(convert(cursor, query, param_names=param_names))
        if query not in known:
            known[query] = convert(cursor, query)
        return known[query]

    return convert_query
