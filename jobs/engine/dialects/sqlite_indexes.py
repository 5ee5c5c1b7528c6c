"""Spells the conditions of SQLite's partial indexes as the engine's statements do.

Statements name these indexes, but SQLite uses a partial index only if the statement contains its
condition word for word: `WHERE q.ready`. Django 6.1 began to create `WHERE "ready" = 1`.
"""

from __future__ import annotations

import re
from typing import Any

from django.db import connections

NAMED = ("job_claim", "job_lane", "job_admitted", "job_waiting_group")

_COMPARED = re.compile(r'("(?:ready|admitted|waiting)") = 1\b')
_CONDITION = " WHERE "


def spell_conditions(using: str, **_: Any) -> None:
    """Recreate the indexes whose condition is spelled differently; called after each migration."""
    connection = connections[using]
    if connection.vendor != "sqlite":
        return
    names = ", ".join(["%s"] * len(NAMED))
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT name, sql FROM sqlite_master WHERE type = 'index' AND name IN ({names})",
            NAMED,
        )
        for name, sql in cursor.fetchall():
            columns, word, condition = sql.rpartition(_CONDITION)
            spelled = columns + word + _COMPARED.sub(r"\1", condition)
            if spelled != sql:
                cursor.execute(f'DROP INDEX "{name}"')
                cursor.execute(spelled)
