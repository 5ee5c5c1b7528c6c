"""Connections to PostgreSQL: how many are allowed, used and needed, and whether a pooler breaks LISTEN."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
from django.db import connection
from django.db.models import Count, Max, Sum
from django.template.defaultfilters import pluralize

from jobs.conf import listen_database_url, worker_concurrency
from jobs.engine.clock import database_now
from jobs.engine.poolers import changes_sessions, connect, is_pooled
from jobs.engine.wakeup import listen_conninfo, main_conninfo
from jobs.models import Worker
from jobs.queries.doctor.base import Finding, Severity, fetch, graded, own_role

# Besides one for each handler: claim, settle, heartbeat, maintenance and LISTEN.
CONNECTIONS_BESIDE_HANDLERS = 5
# psycopg's default for min_size; max_size defaults to min_size.
LEAST_OF_POOL = 4
NEARLY_FULL = 0.8

WHY = (
    "A worker that gets no connection backs off and its jobs wait. If it gets none for its "
    "heartbeat, it loses its lease."
)
FULL_NOTIFICATION_QUEUE = 0.5

WHY_KEPT = (
    "Opening a connection takes longer than running a short job. A worker that opens one for each "
    "chunk of jobs runs short jobs up to 50 times slower."
)
WHY_POOL = (
    "Each worker thread keeps a connection of the process's pool: one per handler, and one each "
    "for claims, outcomes, heartbeat and maintenance. If the pool is smaller, some threads get "
    "none: jobs wait or fail."
)
WHY_NULLS = (
    "The queue sends columns as arrays. With array_nulls off, PostgreSQL reads NULL in an array "
    "as text and refuses it, so no job is claimed."
)
WHY_ENCODING = (
    "The queue and its applications store any text. In another encoding PostgreSQL refuses what it "
    "cannot write: in SQL_ASCII each JSON value with a letter beyond ASCII, so those jobs fail."
)
WHY_PREPARED = (
    "Planning one of the queue's statements takes longer than running it. Without prepared "
    "statements an enqueue takes five times as long, and a job starts twice as late."
)
WHY_POOLED = (
    "A pooler in transaction mode gives the session to another client after each transaction. "
    "Only LISTEN needs a session of its own; nothing else of the service does."
)
WHY_LISTEN = (
    "LISTEN belongs to one session of the server. Through a pooler no notification arrives, so "
    "workers find jobs only by polling, up to one poll interval later."
)
WHY_NOTIFICATIONS = (
    "When PostgreSQL's notification queue is full, every commit that sends a notification fails. "
    "Sessions that LISTEN and stay in one transaction keep it from emptying."
)
SET_DIRECT = "LISTEN_DATABASE_URL=postgres://…  # not through the pooler; or `off` to only poll"

# Connections in all, reserved, used; used by this role, the role's limit, and how many it may have
# here. A missing setting (reserved_connections came with PostgreSQL 16) counts as 0, a limit of -1
# as no limit.
BUDGET = """
SELECT total, reserved, used, used_by_role, role_limit,
       least(total - reserved, role_limit, nullif(datconnlimit, -1))
FROM (
    SELECT current_setting('max_connections')::integer AS total,
           current_setting('superuser_reserved_connections')::integer
               + coalesce(current_setting('reserved_connections', true)::integer, 0) AS reserved,
           (SELECT count(*) FROM pg_stat_activity WHERE usesysid IS NOT NULL
                AND coalesce(backend_type, 'client backend') IN ('client backend', 'walsender')
           ) AS used,
           (SELECT count(*) FROM pg_stat_activity WHERE usename = current_user) AS used_by_role,
           (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user) AS role_limit
) AS budget, pg_database WHERE datname = current_database()
"""


def check() -> Iterator[Finding]:
    """Compare the connections allowed with those used and needed."""
    ((total, reserved, used, used_by_role, role_limit, allowed),) = fetch(BUDGET)
    room = total - reserved
    yield graded(
        "connections.used",
        f"{used} of {room} connections are in use ({total} less {reserved} reserved), "
        f"{used_by_role} of them by this role.",
        WHY,
        f"ALTER SYSTEM SET max_connections = {total * 2};  -- holds after a restart",
        problem=used >= room,
        notice=used >= NEARLY_FULL * room,
    )
    yield _kept()
    yield _nulls()
    yield check_encoding()
    live = Worker.objects.filter(dead_at__isnull=True, lease_expires_at__gt=database_now())
    sums = live.aggregate(
        workers=Count("pk"),
        handlers=Sum("concurrency", default=0),
        most=Max("concurrency", default=worker_concurrency()),
    )
    yield from check_own_pool(sums["most"])
    workers, handlers = sums["workers"], sums["handlers"]
    needed = handlers + workers * CONNECTIONS_BESIDE_HANDLERS
    what = (
        f"{workers} live worker process{pluralize(workers, 'es')} with {handlers} handlers may open {needed} "
        f"connections; this role may have {allowed}."
    )
    mend = (
        "Lower --concurrency or --processes, or put PgBouncer in between; or "
        f"ALTER SYSTEM SET max_connections = {reserved + needed * 2};  -- after a restart"
    )
    if role_limit == allowed:
        mend = f"ALTER ROLE {own_role()} CONNECTION LIMIT -1;"
    full, nearly = needed > allowed, needed > NEARLY_FULL * allowed
    yield graded("connections.needed", what, WHY, mend, problem=full, notice=nearly)


def _kept() -> Finding:
    database = connection.settings_dict
    kept = database["CONN_MAX_AGE"] != 0 or bool(database["OPTIONS"].get("pool"))
    what = (
        "Connections are kept open."
        if kept
        else "Each connection is closed after use, because CONN_MAX_AGE is 0."
    )
    mend = '"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True  # in the settings of the database'
    return graded("connections.kept", what, WHY_KEPT, mend, problem=False, notice=not kept)


def check_own_pool(handlers: int) -> Iterator[Finding]:
    """Compare the size of Django's own pool with what a process with so many handlers needs."""
    pool = connection.settings_dict["OPTIONS"].get("pool")
    if not pool:
        return
    given = pool if isinstance(pool, dict) else {}
    least = given.get("min_size", LEAST_OF_POOL)
    size = given.get("max_size") or least
    # The connection for LISTEN is not taken from the pool.
    needed = handlers + CONNECTIONS_BESIDE_HANDLERS - 1
    what = (
        f"The pool of each process has {size} connections; a worker process with {handlers} handlers"
        f" needs {needed}."
    )
    mend = f'"pool": {{"min_size": {least}, "max_size": {max(needed, least)}}}  # in OPTIONS'
    yield graded("connections.pool", what, WHY_POOL, mend, problem=size < needed, notice=False)


def _nulls() -> Finding:
    ((value,),) = fetch("SELECT current_setting('array_nulls')")
    what = f"array_nulls is {value} in this role's sessions."
    mend = (
        f"ALTER ROLE {own_role()} SET array_nulls = on;  -- then restart workers and web processes"
    )
    return graded("connections.array_nulls", what, WHY_NULLS, mend, problem=value != "on")


def check_encoding() -> Finding:
    """Say whether the database can store every text."""
    ((value,),) = fetch("SELECT current_setting('server_encoding')")
    what = f"The database's encoding is {value}."
    mend = (
        "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0;  -- and restore a dump of this one"
        " into it"
    )
    return graded("connections.encoding", what, WHY_ENCODING, mend, problem=value != "UTF8")


def check_pooling() -> Iterator[Finding]:
    """Say whether a pooler is in between, and whether LISTEN works."""
    pooled = is_pooled(connection.connection)
    yield _mode(pooled=pooled)
    yield _prepared(pooled=pooled)
    yield _listening(pooled=pooled)
    yield _notifications()


def _mode(*, pooled: bool) -> Finding:
    if not pooled:
        what = "The service is connected directly to PostgreSQL."
    elif changes_sessions(main_conninfo()):
        what = (
            "The service is connected through a pooler that changes sessions after each "
            "transaction."
        )
    else:
        what = (
            "The service is connected through a pooler that seems to keep one session per client."
        )
    return Finding("pooling.mode", Severity.OK, what, WHY_POOLED)


def _prepared(*, pooled: bool) -> Finding:
    may_be = not pooled and not listen_database_url()
    planned = connection.connection.prepare_threshold is None
    what = "Statements that are used again are prepared."
    if planned:
        what = "Each statement is planned again every time, because prepare_threshold is None."
    mend = '"OPTIONS": {"prepare_threshold": 3}  # in the settings of the database'
    problem, notice = False, planned and may_be
    return graded("pooling.prepared", what, WHY_PREPARED, mend, problem=problem, notice=notice)


def _listening(*, pooled: bool) -> Finding:
    url = listen_database_url()
    problem = False
    if url == "off":
        what = "LISTEN is off: workers find jobs only by polling."
    elif not url:
        problem = pooled
        what = f"LISTEN goes {'through the pooler' if pooled else 'directly to PostgreSQL'}."
    else:
        try:
            with closing(connect(listen_conninfo())) as direct:
                problem = is_pooled(direct)
            what = "LISTEN goes directly to PostgreSQL, by LISTEN_DATABASE_URL."
            if problem:
                what = "LISTEN_DATABASE_URL leads to a pooler, too."
        except psycopg.Error as error:
            problem = True
            what = f"Connecting to LISTEN_DATABASE_URL failed ({type(error).__name__})."
    return graded("pooling.listen", what, WHY_LISTEN, SET_DIRECT, problem=problem)


def _notifications() -> Finding:
    ((usage,),) = fetch("SELECT pg_notification_queue_usage()")
    what = f"PostgreSQL's notification queue is {usage:.0%} full."
    mend = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE state LIKE 'idle in transaction%' ORDER BY xact_start LIMIT 1;"
    )
    full = usage >= FULL_NOTIFICATION_QUEUE
    return graded("pooling.notifications", what, WHY_NOTIFICATIONS, mend, problem=full)
