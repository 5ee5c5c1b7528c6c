"""When a statement is prepared on PostgreSQL: at its first use, never, or as psycopg decides."""

from __future__ import annotations

from typing import Any

from django.db.backends.postgresql.base import ServerBindingCursor


class PreparingCursor(ServerBindingCursor):
    """Prepares at the first use, if it may at all: planning a statement takes longer than running it."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        """Prepare, then run."""
        options["prepare"] = True
        return super().execute(query, params, **options)  # type: ignore[misc]  # untyped in Django


class LoggedCursor(ServerBindingCursor):
    """Prepares nothing: a prepared statement would be logged without its text."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        """Send the whole statement."""
        options["prepare"] = False
        return super().execute(query, params, **options)  # type: ignore[misc]  # untyped in Django
