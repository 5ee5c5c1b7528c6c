"""Which database this process uses, and how to use another one for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import environ
import psycopg
import pytest
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection, connections
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.waiting import wait_until

postgresql_only = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="a fault that only a server can have"
)
sqlite_only = pytest.mark.skipif(
    connection.vendor != "sqlite", reason="a fault that only a file can have"
)

# Whether the suite runs behind a pooler in transaction mode: see `tests.pooled`.
POOLED = connection.vendor == "postgresql" and settings.LISTEN_DATABASE_URL not in ("", "off")
unpooled_only = pytest.mark.skipif(
    POOLED, reason="asks for the server itself: its sessions, its superuser, a session's settings"
)


def is_waited_for() -> bool:
    """Say whether a session waits for a lock of this one; sessions of other tests do not count."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM pg_locks"
            " WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
        )
        return cursor.fetchone() is not None


def database_url() -> str:
    """Return the URL of the database that this process uses."""
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{Path(database['NAME']).resolve()}"
    login = quote(database["USER"])
    if database["PASSWORD"]:
        login += f":{quote(database['PASSWORD'], safe='')}"
    place = database["HOST"] + (f":{database['PORT']}" if database["PORT"] else "")
    names = ("host", "port", "sslmode")
    options = {name: database["OPTIONS"][name] for name in names if name in database["OPTIONS"]}
    return f"postgres://{login}@{place}/{quote(database['NAME'])}?{urlencode(options)}"


def listen_url() -> str:
    """Return the URL of this process's database without the pooler; empty if there is none."""
    url = settings.LISTEN_DATABASE_URL
    if url in ("", "off"):
        return str(url)
    return make_conninfo(**{**conninfo_to_dict(url), "dbname": connection.settings_dict["NAME"]})


def have_to_itself() -> None:
    """Wait until no other session uses this process's database, which is to be dropped.

    A session lives on for a while after its process was killed, and a pooler keeps sessions open.

    Raises:
        AssertionError: another session stays open.
    """
    with psycopg.connect(listen_url() or database_url(), autocommit=True) as server:
        others = (
            "FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        if POOLED:
            server.execute(f"SELECT pg_terminate_backend(pid) {others}")

        def left() -> list[tuple[Any, ...]]:
            return server.execute(
                f"SELECT pid, state, backend_start::text, state_change::text, query {others}"
            ).fetchall()

        try:
            wait_until(lambda: not left(), "the end of the other sessions")
        except AssertionError as error:
            # Its last statement tells which test left it open.
            raise AssertionError(f"{error}: {left()}") from None


@contextmanager
def empty_database(name: str, folder: Path, options: str = "") -> Iterator[str]:
    """Create an empty database with these options beside this process's own; yield its URL."""
    if connection.vendor == "sqlite":
        yield f"sqlite:///{folder / name}.sqlite3"
        return
    here, own = database_url(), connection.settings_dict["NAME"]
    other = f"{own}_{name}"
    url = here.replace(f"/{own}?", f"/{other}?")
    assert url != here
    with psycopg.connect(here, autocommit=True) as server:
        server.execute(f"DROP DATABASE IF EXISTS {other} WITH (FORCE)")
        server.execute(f"CREATE DATABASE {other} {options}")
        yield url
        server.execute(f"DROP DATABASE {other} WITH (FORCE)")


@contextmanager
def default_database(url: str) -> Iterator[None]:
    """Make the database at `url` the default database of this thread inside the block."""
    settings, connection_before = (
        connections.settings[DEFAULT_DB_ALIAS],
        connections[DEFAULT_DB_ALIAS],
    )
    connections.settings[DEFAULT_DB_ALIAS] = {**settings, **environ.Env.db_url_config(url)}
    del connections[DEFAULT_DB_ALIAS]
    try:
        yield
    finally:
        connection.close()
        connections.settings[DEFAULT_DB_ALIAS] = settings
        connections[DEFAULT_DB_ALIAS] = connection_before


def listeners() -> int:
    """Return how many sessions of this database listen for notifications."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE 'LISTEN %%'"
        )
        return int(cursor.fetchone()[0])


def interrupted(generator: Any, **_: Any) -> None:
    """Stand in for `Connection.wait`, as if a signal came."""
    next(generator)
    raise KeyboardInterrupt
