"""Tells whether a handler's transaction is still the one of its scope, even after SQL ended it."""

from __future__ import annotations

import sqlite3

from django.db import connection

from tenants.local_settings import DURABLE_SETTING

# On PostgreSQL the durable scope sets this for its own transaction only.
SAME_TRANSACTION = f"current_setting('{DURABLE_SETTING}', true) <> ''"
_SAVEPOINT = "mailroom_durable"


def mark_transaction() -> None:
    """Mark the open transaction, which a durable scope has just begun."""
    if connection.vendor == "sqlite":
        connection.connection.execute(f"SAVEPOINT {_SAVEPOINT}")


def same_transaction_sql() -> str:
    """Return a condition that holds in the transaction that was marked."""
    return SAME_TRANSACTION if connection.vendor == "postgresql" else str(int(is_marked()))


def is_marked() -> bool:
    """Say whether the open transaction is the one that was marked; SQLite only."""
    try:
        connection.connection.execute(f"RELEASE {_SAVEPOINT}")
    except sqlite3.OperationalError:
        return False
    mark_transaction()
    return True
