"""What to say of a database that `manage.py migrate` has not been run on."""

from __future__ import annotations

from django.db import DatabaseError

UNDEFINED_TABLE = "42P01"
MEND = "run manage.py migrate"


def missing_table(error: BaseException) -> str:
    """Return a line that names the missing table and says what to do; empty for any other error."""
    if not isinstance(error, DatabaseError):
        return ""
    said = str(error).partition("\n")[0]
    state = getattr(error.__cause__, "sqlstate", None)
    if state != UNDEFINED_TABLE and not said.startswith("no such table"):
        return ""
    return f"{said}: {MEND}"
