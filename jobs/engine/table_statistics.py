"""Has the table of jobs analyzed as soon as it outgrows the plans of its statements; PostgreSQL only.

The workers' statements keep their plans. One that was made while the table was small reads the whole
table, for each row where two are joined. Autovacuum would analyze it, which makes PostgreSQL plan
anew, but looks only once a minute.
"""

from __future__ import annotations

from django.db import connection

from jobs.engine.transactions import fetch, in_transaction, run

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
    """Knows how small the table was when plans of this process may have been made."""

    def __init__(self) -> None:
        # None: nobody has looked yet.
        self._planned_pages: int | None = None

    def look(self) -> None:
        """Note how many pages the table has, before this process plans any statement."""
        self._planned_pages = in_transaction(_sizes)[0] if connection.vendor == "postgresql" else 0

    def has_outgrown(self, pages: int) -> bool:
        """Say whether the table has grown many times since; call it often, from the beginning."""
        # Plans are also made anew after a table was emptied.
        planned = self._planned_pages
        self._planned_pages = pages if planned is None else min(planned, pages)
        return _is_much_more(pages, self._planned_pages)

    def analyze(self) -> None:
        """Analyze the table, unless its statistics are new; call it again while it has outgrown.

        A session that vacuums the table, or builds an index of it, is not waited for.
        """
        if connection.vendor != "postgresql":
            return
        pages, known_pages = in_transaction(_renewed_sizes)
        if not _is_much_more(pages, known_pages):
            self._planned_pages = pages


def _renewed_sizes() -> tuple[int, int]:
    """Analyze the table if need be; return how many pages it has, and how many are known."""
    pages, known_pages = _sizes()
    if _is_much_more(pages, known_pages):
        # A timeout of the role is meant for its queries.
        fetch("SELECT set_config('statement_timeout', '0', true)", [])
        run("ANALYZE (SKIP_LOCKED) jobs_jobqueue", [])
    return _sizes()


def _sizes() -> tuple[int, int]:
    """Return how many pages the table has, and had when it was last analyzed."""
    known = "(SELECT relpages FROM pg_class WHERE oid = 'jobs_jobqueue'::regclass)"
    ((pages, known_pages),) = fetch(f"SELECT {pages_sql()}, {known}", [])
    return pages, known_pages


def _is_much_more(pages: int, than: int) -> bool:
    return pages >= max(GROWTH * than, SMALL_PAGES)
