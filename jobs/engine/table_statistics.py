"""Has the table of jobs analyzed as soon as it outgrows the plans of its statements; PostgreSQL only.

The workers' statements keep their plans. One that was made while the table was small reads the whole
table, for each row where two are joined. Autovacuum would analyze it, which makes PostgreSQL plan
anew, but looks only once a minute.
"""

from __future__ import annotations

from django.db import connection

from jobs.engine.transactions import fetch_pipelined, run_alone

# With fewer pages every plan is fast.
SMALL_PAGES = 100
GROWTH = 4


def pages_sql() -> str:
    """Return the expression of how many pages the table of jobs has; 0 on SQLite."""
    if connection.vendor != "postgresql":
        return "0"
    size = "pg_relation_size('jobs_jobqueue'::regclass)"
    return f"({size} / current_setting('block_size')::bigint)"


class TableWatch:
    """Knows how large the table was when the plans of this process may have been made."""

    def __init__(self) -> None:
        # None: nothing is planned yet.
        self._planned_pages: int | None = None

    def has_outgrown(self, pages: int) -> bool:
        """Say whether the table has grown many times since; call it often, from the beginning."""
        if self._planned_pages is None:
            self._planned_pages = pages
        return _is_much_more(pages, self._planned_pages)

    def analyze(self) -> None:
        """Analyze the table, unless another session has, or is at it. No transaction may be open."""
        known = "(SELECT relpages FROM pg_class WHERE oid = 'jobs_jobqueue'::regclass)"
        ((pages, known_pages),) = fetch_pipelined(f"SELECT {pages_sql()}, {known}", [])
        if _is_much_more(pages, known_pages):
            run_alone("ANALYZE (SKIP_LOCKED) jobs_jobqueue", [])
        self._planned_pages = pages


def _is_much_more(pages: int, than: int) -> bool:
    return pages >= GROWTH * max(than, SMALL_PAGES // GROWTH)
