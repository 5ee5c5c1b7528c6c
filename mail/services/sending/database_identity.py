"""Tells a database from another one that was restored from its backup.

PostgreSQL gives a cluster an identifier when it is created, and a new timeline when it is recovered
to an earlier time or a standby takes over; a table restored from a dump has a new number. A message
that was queued before such a moment may have been sent after it.
"""

from __future__ import annotations

from django.db import connection

_PARTS = (
    "SELECT (SELECT system_identifier FROM pg_control_system()),"
    " (SELECT oid FROM pg_database WHERE datname = current_database()),"
    " 'mail_outboundmessage'::regclass::oid,"
    # The timeline is the first eight digits of the name of a file of the write-ahead log.
    " left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)"
)


def database_identity() -> str:
    """Return a text that changes when the database is restored; empty on SQLite, which has none."""
    if connection.vendor != "postgresql":
        return ""
    with connection.cursor() as cursor:
        cursor.execute(_PARTS)
        return ":".join(str(part) for part in cursor.fetchone())
