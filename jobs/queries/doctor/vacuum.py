"""Whether vacuum keeps up with the hot table, and whether the table's updates stay HOT."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobs.queries.doctor.base import Finding, Severity, fetch, graded

HOT_TABLE = "jobs_jobqueue"
# The storage parameters that the migrations set.
SETTINGS: Mapping[str, Mapping[str, str]] = {
    HOT_TABLE: {
        "fillfactor": "45",
        "autovacuum_vacuum_scale_factor": "0",
        "autovacuum_vacuum_threshold": "1000",
        "autovacuum_vacuum_cost_delay": "0",
        "autovacuum_analyze_scale_factor": "0.02",
    },
    "jobs_worker": {
        "fillfactor": "50",
        "autovacuum_vacuum_scale_factor": "0",
        "autovacuum_vacuum_threshold": "100",
    },
}
# Autovacuum starts at most once a minute; a busy queue leaves so many dead rows in between.
MANY_DEAD = 100_000
VERY_MANY_DEAD = 1_000_000
# Of the two updates in a short job's life the claim is HOT, the settle is not.
LEAST_HOT_SHARE = 0.35
FEW_UPDATES = 10_000
# A fresh entry takes under 100 bytes; an index far beyond that is mostly empty pages.
BLOATED_BYTES_PER_ENTRY = 1_000
SMALL_INDEX_BYTES = 16 * 1024 * 1024

STATISTICS = """
SELECT s.n_live_tup, s.n_dead_tup, s.n_tup_upd, s.n_tup_hot_upd,
       to_char(greatest(s.last_autovacuum, s.last_vacuum) AT TIME ZONE 'UTC',
               'YYYY-MM-DD HH24:MI:SS')
FROM pg_stat_user_tables s WHERE s.relid = 'jobs_jobqueue'::regclass
"""
OPTIONS = """
SELECT c.relname, c.reloptions FROM pg_class c
WHERE c.oid IN ('jobs_jobqueue'::regclass, 'jobs_worker'::regclass)
"""
INDEXES = """
SELECT c.relname, pg_relation_size(c.oid), c.reltuples::bigint
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = 'jobs_jobqueue'::regclass ORDER BY 2 DESC
"""

WHY_VACUUM = "Claims step over dead row versions until vacuum has removed them."
WHY_SETTINGS = (
    "The queue's tables change all the time. Their pages need free room for HOT updates, and "
    "vacuum must go by the number of dead rows, however large the table is."
)
WHY_HOT = (
    "An update that is not HOT writes to every index of the table, so a claim costs several times "
    "as much."
)
WHY_BLOAT = "A claim reads the index from its beginning, including empty pages."


def check() -> Iterator[Finding]:
    """Check settings, dead rows, HOT updates and the size of the indexes."""
    yield _autovacuum()
    yield from _settings()
    yield from _statistics()
    yield from _bloat()


def _autovacuum() -> Finding:
    ((value,),) = fetch("SELECT current_setting('autovacuum')")
    on = value == "on"
    what = "Autovacuum runs." if on else "Autovacuum is switched off for the whole server."
    mend = "ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf();"
    return graded("vacuum.autovacuum", what, WHY_VACUUM, mend, problem=not on)


def _settings() -> Iterator[Finding]:
    for table, options in fetch(OPTIONS):
        found = dict(option.split("=", 1) for option in options or ())
        wanted = SETTINGS[table]
        wrong = {name: value for name, value in wanted.items() if found.get(name) != value}
        if found.get("autovacuum_enabled", "true") != "true":
            wrong["autovacuum_enabled"] = "true"
        listed = ", ".join(f"{name} = {value}" for name, value in wrong.items())
        what = f"{table} has the fillfactor and autovacuum settings of its migration."
        if wrong:
            what = f"{table} has other settings than its migration gave it: {', '.join(wrong)}."
        mend = f"ALTER TABLE {table} SET ({listed});"
        yield graded("vacuum.settings", what, WHY_SETTINGS, mend, problem=bool(wrong))


def _statistics() -> Iterator[Finding]:
    for live, dead, updates, hot, vacuumed in fetch(STATISTICS):
        yield _dead_rows(live, dead, vacuumed)
        yield _hot_share(updates, hot)


def _dead_rows(live: int, dead: int, vacuumed: str | None) -> Finding:
    last = f"last vacuumed at {vacuumed} UTC" if vacuumed else "not vacuumed yet"
    what = f"{HOT_TABLE} has {live:,} live and {dead:,} dead rows, {last}."
    mend = f"VACUUM (VERBOSE, ANALYZE) {HOT_TABLE};  -- after ending old snapshots"
    many = dead >= MANY_DEAD and dead > live
    severe = many and dead >= VERY_MANY_DEAD
    return graded("vacuum.dead_rows", what, WHY_VACUUM, mend, problem=severe, notice=many)


def _hot_share(updates: int, hot: int) -> Finding:
    if updates < FEW_UPDATES:
        what = f"{updates:,} updates so far: too few to tell how many are HOT."
        return Finding("vacuum.hot_updates", Severity.OK, what, WHY_HOT)
    share = hot / updates
    what = f"{share:.0%} of {updates:,} updates were HOT."
    mend = (
        "Drop indexes that do not belong to the queue. Then, at a quiet time, give the pages free "
        f"room again: VACUUM (FULL, ANALYZE) {HOT_TABLE};"
    )
    few = share < LEAST_HOT_SHARE
    return graded("vacuum.hot_updates", what, WHY_HOT, mend, problem=False, notice=few)


def _bloat() -> Iterator[Finding]:
    bloated = [
        (name, size, entries)
        for name, size, entries in fetch(INDEXES)
        if size > SMALL_INDEX_BYTES and size > BLOATED_BYTES_PER_ENTRY * max(entries, 1)
    ]
    for name, size, entries in bloated:
        yield Finding(
            "vacuum.index_bloat",
            Severity.NOTICE,
            f"Index {name} takes {size // 2**20:,} MB for about {max(entries, 0):,} entries.",
            WHY_BLOAT,
            f"REINDEX INDEX CONCURRENTLY {name};",
        )
    if not bloated:
        what = f"No index of {HOT_TABLE} looks bloated."
        yield Finding("vacuum.index_bloat", Severity.OK, what, WHY_BLOAT)
