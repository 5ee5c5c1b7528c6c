"""Old snapshots: what keeps PostgreSQL from removing row versions that nobody else can see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db import connection
from psycopg import sql

from jobs.queries.doctor.base import Finding, Severity, fetch, own_role
from jobs.queries.durations import in_words

# From this age on a snapshot is an alert: the hot table has very many dead rows by then.
ALERT_SECONDS = 300.0
NOTICE_SECONDS = 60.0
# A replication slot has no time: its age is counted in transactions.
FAR_BEHIND = 1_000_000

WHY = (
    "Every claim and every settled job leaves a dead row version. Vacuum cannot remove those that "
    "this snapshot may still see, so claims step over them and get slower."
)

SESSIONS = """
SELECT pid, usename, application_name, host(client_addr), state,
       extract(epoch FROM clock_timestamp() - xact_start)::double precision AS seconds
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL OR state LIKE 'idle in transaction%%')
  AND xact_start IS NOT NULL AND backend_type IS DISTINCT FROM 'autovacuum worker'
ORDER BY seconds DESC LIMIT 10
"""
PREPARED = """
SELECT gid, owner, extract(epoch FROM clock_timestamp() - prepared)::double precision AS seconds
FROM pg_prepared_xacts WHERE database = current_database()
ORDER BY seconds DESC LIMIT 10
"""
SLOTS = "SELECT slot_name, active, age(xmin) FROM pg_replication_slots WHERE xmin IS NOT NULL"
# How sessions of others appear to a role that may not read their statistics. The server's own
# processes appear so too, autovacuum's above all, but without a user.
HIDDEN = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND usesysid IS NOT NULL
  AND query = '<insufficient privilege>'
"""


@dataclass(frozen=True)
class SnapshotHolder:
    """Who keeps an old snapshot, for how long, and the SQL that ends it."""

    id: str
    name: str
    who: str
    seconds: float
    mend: str


def holders() -> list[SnapshotHolder]:
    """Return the holders of open transactions, the oldest first; none on SQLite."""
    if connection.vendor != "postgresql":
        return []
    return sorted([*_sessions(), *_prepared()], key=lambda holder: -holder.seconds)


def oldest_snapshot() -> SnapshotHolder | None:
    """Return the holder of the oldest snapshot, if any."""
    return next(iter(holders()), None)


def is_pinned(holder: SnapshotHolder | None) -> bool:
    """Say whether the snapshot is old enough for an alert."""
    return holder is not None and holder.seconds >= ALERT_SECONDS


def check() -> Iterator[Finding]:
    """Name every old snapshot."""
    old = [holder for holder in holders() if holder.seconds >= NOTICE_SECONDS]
    for holder in old:
        severity = Severity.PROBLEM if is_pinned(holder) else Severity.NOTICE
        what = f"{holder.who} has held a snapshot for {in_words(holder.seconds)}."
        yield Finding(holder.id, severity, what, WHY, holder.mend)
    slots = list(_slots())
    yield from slots
    if not old and not slots:
        yield Finding("snapshots.none", Severity.OK, "Nobody holds an old snapshot.", WHY)
    yield from _hidden()


def _sessions() -> Iterator[SnapshotHolder]:
    for pid, role, application, address, state, seconds in fetch(SESSIONS):
        program = f" ({application})" if application else ""
        place = f" from {address}" if address else ""
        yield SnapshotHolder(
            id="snapshots.session",
            name=f"session {pid}",
            who=f"Session {pid} of role {role}{program}{place}, {state or 'in an unknown state'},",
            seconds=seconds,
            mend=f"SELECT pg_terminate_backend({pid});",
        )


def _prepared() -> Iterator[SnapshotHolder]:
    for gid, owner, seconds in fetch(PREPARED):
        yield SnapshotHolder(
            id="snapshots.prepared",
            name=f"prepared transaction {gid}",
            who=f"Prepared transaction {gid} of role {owner}",
            seconds=seconds,
            mend=f"ROLLBACK PREPARED {_literal(gid)};",
        )


def _slots() -> Iterator[Finding]:
    for name, active, behind in fetch(SLOTS):
        if active and behind < FAR_BEHIND:
            continue
        reader = "has no reader" if not active else "lags"
        yield Finding(
            "snapshots.slot",
            Severity.NOTICE if active else Severity.PROBLEM,
            (
                f"Replication slot {name} {reader} and holds a snapshot that is {behind:,} "
                "transactions old."
            ),
            WHY,
            f"SELECT pg_drop_replication_slot({_literal(name)});  -- if nobody needs it",
        )


def _hidden() -> Iterator[Finding]:
    ((count,),) = fetch(HIDDEN)
    if count:
        yield Finding(
            "snapshots.hidden",
            Severity.NOTICE,
            f"{count} sessions of other roles are hidden from this role.",
            "One of them may hold an old snapshot.",
            f"GRANT pg_read_all_stats TO {own_role()};  -- as a superuser",
        )


def _literal(text: str) -> str:
    return sql.Literal(text).as_string()
