"""Fills the queue's tables by SQL, reads what became of the jobs, and deletes the rows.

Enqueuing a million jobs would take longer than measuring them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.apps import apps
from django.db import connection
from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch, in_transaction, reading, run
from jobs.job_handlers import BENCH_JOB_TYPE
from jobs.states import Category, Priority, Status
from tenants.models import FirmOwned

DELETED_AT_ONCE = 100_000
# The resolution of SQLite's clock.
LEAST_SECONDS = 0.001

# UUIDv7, as an enqueue makes them.
_NEW_ID = {
    "postgresql": (
        "(lpad(to_hex(%s + {serial} / 1000), 12, '0') || '7'"
        " || lpad(to_hex({serial} %% 1000), 3, '0') || '8'"
        " || substr(md5(random()::text), 1, 15))::uuid"
    ),
    "sqlite": (
        "(printf('%%012x7%%03x8', %s + {serial} / 1000, {serial} %% 1000)"
        " || substr(lower(hex(randomblob(8))), 2))"
    ),
}
_THIRTY_DIGITS = {
    "postgresql": "lpad(({serial})::text, 30, '0')",
    "sqlite": "printf('%%030d', {serial})",
}
_JSON_OBJECT = {"postgresql": "jsonb_build_object", "sqlite": "json_object"}
_FIRMS = {"firm_id": Column.BIGINT, "place": Column.BIGINT}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What the jobs to be stored are like."""

    job_type: str = BENCH_JOB_TYPE
    category: str = Category.MAINTENANCE.value
    priority: int = Priority.NORMAL.value
    age_seconds: float = 0.0
    status: Status = Status.PENDING
    # False: held back, and still to be admitted.
    ready: bool = True
    # How many lock keys the jobs of each firm share; 0: none. Keyed jobs are stored waiting.
    lock_keys: int = 0


@dataclass(frozen=True)
class Span:
    """How many jobs were completed, and the seconds from the first claim to the last settle."""

    jobs: int
    seconds: float

    @property
    def jobs_per_second(self) -> float:
        """The rate."""
        return self.jobs / max(self.seconds, LEAST_SECONDS)


def spread(jobs: int, firms: Sequence[int]) -> dict[int, int]:
    """Return equal numbers of jobs by firm; the first firms get the remainder."""
    each, more = divmod(jobs, len(firms))
    shares = {firm_id: each + (place < more) for place, firm_id in enumerate(firms)}
    return {firm_id: share for firm_id, share in shares.items() if share}


def fill(jobs: Mapping[int, int], kind: Kind | None = None) -> None:
    """Store this many jobs by firm id, interleaved and in one transaction."""
    firms_of: dict[int, list[int]] = defaultdict(list)
    for firm_id, count in jobs.items():
        firms_of[count].append(firm_id)

    def insert() -> None:
        for count, firms in firms_of.items():
            _insert(count, firms, kind or Kind())
        if connection.vendor == "postgresql":
            # As autovacuum does in a table that was filled slowly.
            run("ANALYZE jobs_jobqueue", [])

    in_transaction(insert)


def _insert(count: int, firms: Sequence[int], kind: Kind) -> None:
    dialect = dialects.current()
    vendor = connection.vendor
    serial = f"((number.n - 1) * {len(firms)} + f.place)"
    table, firm_params = dialect.rows_sql(
        "f", _FIRMS, [(firm_id, place) for place, firm_id in enumerate(firms)]
    )
    due = dialect.after_sql(dialect.now_sql(), str(-kind.age_seconds))
    is_over = kind.status is Status.COMPLETED
    is_ready = kind.ready and not kind.lock_keys
    happened = due if is_over else "NULL"
    # As long as real correlation ids.
    correlation = f"('bench-' || {_THIRTY_DIGITS[vendor].format(serial=serial)})"
    payload = (
        f"{_JSON_OBJECT[vendor]}('tenant_id', f.firm_id, 'version', '1.0',"
        f" 'correlation_id', {correlation})"
    )
    key = f"('bench-' || (number.n %% {kind.lock_keys}))" if kind.lock_keys else "NULL"
    run(
        f"""
        WITH RECURSIVE number (n) AS (
            SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < %s
        )
        INSERT INTO jobs_jobqueue (job_id, firm_id, category, job_type, payload_version, payload,
            correlation_id, priority, status, attempts, lease_token, lock_key, ready, waiting,
            scheduled_at, claimed_at, started_at, completed_at)
        SELECT {_NEW_ID[vendor].format(serial=serial)}, f.firm_id, %s, %s, '1.0', {payload},
            {correlation}, %s, %s, {int(is_over)}, {-int(is_over)}, {key}, %s, %s,
            {due}, {happened}, {happened}, {happened}
        FROM number CROSS JOIN {table} ORDER BY number.n, f.place
        """,
        [
            count,
            int(uuid7().hex[:12], 16),
            *(kind.category, kind.job_type, kind.priority, kind.status.value),
            is_ready and not is_over,
            not is_ready and not is_over,
            *firm_params,
        ],
    )


def settled(firms: Sequence[int]) -> int:
    """Return how many of the firms' jobs are settled, by the counters.

    Counting the jobs themselves would disturb the measurement.
    """
    table, params = _table_of(firms)
    found = reading(
        lambda: fetch(
            "SELECT COALESCE(sum(m.completed + m.failed + m.dlq + m.canceled), 0)"
            f" FROM jobs_jobminute m JOIN {table} ON f.firm_id = m.firm_id",
            params,
        )
    )
    return int(found[0][0])


def completed_span(firms: Sequence[int]) -> Span:
    """Return how many of the firms' jobs were completed, and in which time."""
    table, params = _table_of(firms)
    seconds = dialects.current().seconds_between_sql("min(j.claimed_at)", "max(j.completed_at)")
    found = reading(
        lambda: fetch(
            f"""
            SELECT count(*), {seconds} FROM jobs_jobqueue j JOIN {table} ON f.firm_id = j.firm_id
            WHERE j.status = 'completed'
            """,
            params,
        )
    )
    return Span(int(found[0][0]), float(found[0][1] or 0.0))


def pick_ups(firms: Sequence[int]) -> list[tuple[float, float]]:
    """Return, per completed job, the seconds from its insert to its claim and to its handler."""
    table, params = _table_of(firms)
    dialect = dialects.current()
    claimed = dialect.seconds_between_sql("j.created_at", "j.claimed_at")
    started = dialect.seconds_between_sql("j.created_at", "j.started_at")
    return reading(
        lambda: fetch(
            f"""
            SELECT {claimed}, {started} FROM jobs_jobqueue j JOIN {table} ON f.firm_id = j.firm_id
            WHERE j.status = 'completed'
            """,
            params,
        )
    )


def hand_overs(firms: Sequence[int]) -> list[float]:
    """Return the seconds from each end of a keyed job to the claim of the next one of its key."""
    table, params = _table_of(firms)
    gap = dialects.current().seconds_between_sql("hold.before", "hold.claimed_at")
    found = reading(
        lambda: fetch(
            f"""
            SELECT {gap} FROM (
                SELECT j.claimed_at, lag(j.completed_at) OVER (
                    PARTITION BY j.firm_id, j.lock_key ORDER BY j.claimed_at, j.completed_at
                ) AS before
                FROM jobs_jobqueue j JOIN {table} ON f.firm_id = j.firm_id
                WHERE j.status = 'completed'
            ) AS hold WHERE hold.before IS NOT NULL
            """,
            params,
        )
    )
    return [float(seconds) for (seconds,) in found]


def complete(job_ids: Sequence[UUID]) -> None:
    """Mark these claimed jobs completed, without anything else a settle does."""
    table, params = dialects.current().rows_sql(
        "r", {"job_id": Column.UUID}, [(job_id,) for job_id in job_ids]
    )
    in_transaction(
        lambda: run(
            "UPDATE jobs_jobqueue SET status = 'completed', ready = false"
            f" FROM {table} WHERE jobs_jobqueue.job_id = r.job_id",
            params,
        )
    )


def delete_of_firms(firms: Sequence[int]) -> None:
    """Delete every row of the queue that belongs to these firms."""
    for table, key in _tables():
        while in_transaction(lambda: _delete_some(table, key, firms)):  # noqa: B023 - called at once
            pass


def delete_firms(firms: Sequence[int]) -> None:
    """Delete the firms themselves, once they have no rows."""
    table, params = _table_of(firms)
    in_transaction(
        lambda: run(f"DELETE FROM tenants_firm WHERE id IN (SELECT f.firm_id FROM {table})", params)
    )


def tidy() -> None:
    """Vacuum on PostgreSQL, so that the next measurement starts without dead rows."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for table, _ in _tables():
                cursor.execute(f"VACUUM (ANALYZE) {table}")


def _delete_some(table: str, key: str, firms: Sequence[int]) -> int:
    owners, params = _table_of(firms)
    return run(
        f"""
        DELETE FROM {table} WHERE {key} IN (
            SELECT t.{key} FROM {table} t JOIN {owners} ON f.firm_id = t.firm_id LIMIT %s
        )
        """,
        [*params, DELETED_AT_ONCE],
    )


def _table_of(firms: Sequence[int]) -> tuple[str, list[object]]:
    return dialects.current().rows_sql(
        "f", {"firm_id": Column.BIGINT}, [(firm_id,) for firm_id in firms]
    )


def _tables() -> list[tuple[str, str]]:
    """Return the queue's firm-owned tables, each with the name of its primary key."""
    models = apps.get_app_config("jobs").get_models()
    metas = [model._meta for model in models if issubclass(model, FirmOwned)]
    return [(meta.db_table, meta.pk.attname) for meta in metas]
