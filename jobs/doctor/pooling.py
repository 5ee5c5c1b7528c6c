"""Whether a connection pooler stands between the service and PostgreSQL, and what it breaks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
from django.db import connection

from jobs.conf import listen_database_url
from jobs.doctor.finding import Finding, Severity
from jobs.doctor.safely import TIME_LIMIT_SECONDS, fetch
from jobs.engine.listen_address import listen_conninfo, main_conninfo

FULL_NOTIFICATION_QUEUE = 0.5

WHY_POOLED = (
    "Where a pooler hands the server's session on after each transaction, nothing may rest on the "
    "session: the service keeps nothing there but LISTEN."
)
WHY_LISTEN = (
    "LISTEN belongs to a session of the server. Through a pooler it is not heard: jobs are then "
    "found by polling alone, up to a poll interval later. Without LISTEN_DATABASE_URL the service "
    "also prepares statements, which an older pooler forgets."
)
WHY_NOTIFICATIONS = (
    "When the queue of notifications is full, every commit that sends one fails. It is held up by "
    "sessions that LISTEN and stay in one transaction."
)
SET_DIRECT = "LISTEN_DATABASE_URL=postgres://…  # past the pooler; or `off` for polling alone"


def look() -> Iterator[Finding]:
    """Say how the service is connected, and whether LISTEN is heard."""
    pooled = _is_pooled(connection.connection)
    yield _mode(pooled=pooled)
    yield _listening(pooled=pooled)
    yield _notifications()


def _mode(*, pooled: bool) -> Finding:
    if not pooled:
        what = "The service is connected to PostgreSQL itself."
        return Finding("pooling.mode", Severity.OK, what, WHY_POOLED)
    shared = _hands_sessions_on()
    what = (
        "A pooler stands in between, and hands sessions on after each transaction."
        if shared
        else "A pooler stands in between; it seems to keep a session for each client."
    )
    return Finding("pooling.mode", Severity.OK, what, WHY_POOLED)


def _listening(*, pooled: bool) -> Finding:
    url = listen_database_url()
    if url == "off":
        what = "LISTEN is switched off: jobs are found by polling."
        return Finding("pooling.listen", Severity.OK, what, WHY_LISTEN)
    if not url and not pooled:
        what = "LISTEN goes to PostgreSQL itself."
        return Finding("pooling.listen", Severity.OK, what, WHY_LISTEN)
    if not url:
        what = "LISTEN goes through the pooler."
        return Finding("pooling.listen", Severity.PROBLEM, what, WHY_LISTEN, SET_DIRECT)
    try:
        with closing(_connect(listen_conninfo())) as direct:
            through_pooler = _is_pooled(direct)
    except psycopg.Error as error:
        what = f"LISTEN_DATABASE_URL cannot be connected to ({type(error).__name__})."
        return Finding("pooling.listen", Severity.PROBLEM, what, WHY_LISTEN, SET_DIRECT)
    if through_pooler:
        what = "LISTEN_DATABASE_URL leads to a pooler too."
        return Finding("pooling.listen", Severity.PROBLEM, what, WHY_LISTEN, SET_DIRECT)
    what = "LISTEN goes to PostgreSQL itself, by LISTEN_DATABASE_URL."
    return Finding("pooling.listen", Severity.OK, what, WHY_LISTEN)


def _notifications() -> Finding:
    ((usage,),) = fetch("SELECT pg_notification_queue_usage()")
    what = f"The queue of notifications is {usage:.0%} full."
    if usage < FULL_NOTIFICATION_QUEUE:
        return Finding("pooling.notifications", Severity.OK, what, WHY_NOTIFICATIONS)
    mend = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE state LIKE 'idle in transaction%' ORDER BY xact_start LIMIT 1;"
    )
    return Finding("pooling.notifications", Severity.PROBLEM, what, WHY_NOTIFICATIONS, mend)


def _connect(conninfo: str) -> psycopg.Connection[Any]:
    return psycopg.connect(
        conninfo, autocommit=True, connect_timeout=int(TIME_LIMIT_SECONDS), prepare_threshold=None
    )


def _is_pooled(client: psycopg.Connection[Any]) -> bool:
    """Say whether the process the client was told of is another than the one that answers.

    A pooler makes up what it tells its clients at their start.
    """
    return client.info.backend_pid != _server_process(client)


def _hands_sessions_on() -> bool:
    """Say whether a second client can get the session that a first one has used.

    A pooler gives out the session that became free last; only where it never does so while both
    are connected does each client keep its own.
    """
    with (
        closing(_connect(main_conninfo())) as first,
        closing(_connect(main_conninfo())) as second,
    ):
        before = _server_process(first)
        with second.transaction():
            return _server_process(second) == before or _server_process(first) != before


def _server_process(client: psycopg.Connection[Any]) -> int:
    with client.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        row = cursor.fetchone()
    return int(row[0]) if row else 0
