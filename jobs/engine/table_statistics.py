"""Analyzes the table of jobs as soon as it has outgrown its statistics; PostgreSQL only.

The workers' statements keep their plans. One that was made while the table was small reads the whole
table, for each row where two are joined. Autovacuum would analyze it, which makes PostgreSQL plan
anew, but looks only once a minute.
"""

from __future__ import annotations

from django.db import connection

from jobs.engine.transactions import run_alone

# With fewer pages (of 8 KB) every plan is fast.
SMALL_PAGES = 25
GROWTH = 4


def outgrown_sql() -> str:
    """Return the condition that the table is many times larger than when it was last analyzed."""
    if connection.vendor != "postgresql":
        return "false"
    return (
        "(SELECT pg_relation_size(c.oid) >"
        f" {GROWTH} * greatest(c.relpages, {SMALL_PAGES}) * current_setting('block_size')::bigint"
        " FROM pg_class c WHERE c.oid = 'jobs_jobqueue'::regclass)"
    )


def analyze() -> None:
    """Analyze the table, unless another worker or VACUUM is at it. No transaction may be open."""
    if connection.vendor == "postgresql":
        run_alone("ANALYZE (SKIP_LOCKED) jobs_jobqueue", [])
