"""Fills the queue's table by SQL, and reads what became of the jobs.

Enqueuing a million jobs would take longer than measuring them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Count, F, Max, Min, Sum
from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.transactions import in_transaction, reading, run
from jobs.errors import BenchmarkFailed
from jobs.job_handlers import BENCH_JOB_TYPE
from jobs.management.benchmarks.firms import bench_firms
from jobs.models import JobMinute, JobMinuteDelta, JobQueue
from jobs.states import Category, Priority, Status

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
_FIRMS = {"firm_id": Column.BIGINT, "place": Column.BIGINT, "jobs": Column.BIGINT}
_REASON = "a benchmark's own jobs"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What the jobs to be stored are like."""

    job_type: str = BENCH_JOB_TYPE
    category: str = Category.MAINTENANCE.value
    priority: int = Priority.NORMAL.value
    age_seconds: float = 0.0
    status: Status = Status.PENDING
    # False if the jobs are held back, and have yet to be admitted.
    ready: bool = True
    # How many lock keys the jobs of each firm share, or 0. Jobs with a key are stored waiting.
    lock_keys: int = 0


def spread(jobs: int, firms: Sequence[int]) -> dict[int, int]:
    """Return equal numbers of jobs by firm; the first firms get the remainder."""
    each, more = divmod(jobs, len(firms))
    return {firm_id: each + (place < more) for place, firm_id in enumerate(firms)}


def fill(jobs: Mapping[int, int], kind: Kind | None = None) -> None:
    """Store this many jobs by firm id, interleaved and in one transaction."""
    in_transaction(lambda: _insert(jobs, kind or Kind()))


def _insert(jobs: Mapping[int, int], kind: Kind) -> None:
    dialect = dialects.current()
    vendor = connection.vendor
    serial = f"((number.n - 1) * {len(jobs)} + f.place)"
    table, firm_params = dialect.rows_sql(
        "f",
        _FIRMS,
        [(firm_id, place, count) for place, (firm_id, count) in enumerate(jobs.items())],
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
        FROM number JOIN {table} ON number.n <= f.jobs ORDER BY number.n, f.place
        """,
        [
            max(jobs.values()),
            int(uuid7().hex[:12], 16),
            *(kind.category, kind.job_type, kind.priority, kind.status.value),
            is_ready and not is_over,
            not is_ready and not is_over,
            *firm_params,
        ],
    )
    if vendor == "postgresql":
        # As autovacuum does in a table that was filled slowly.
        run("ANALYZE jobs_jobqueue", [])


def settled() -> int:
    """Return how many jobs are settled, by the counters.

    Counting the jobs themselves would disturb the measurement.
    """
    count = Sum(F("completed") + F("failed") + F("dlq") + F("canceled"), default=0)
    # In this order, so that deltas folded in between are missed this time, and not counted twice.
    tables = [
        model.objects.unscoped(_REASON).filter(firm__in=bench_firms())
        for model in (JobMinute, JobMinuteDelta)
    ]
    return reading(lambda: sum(int(table.aggregate(count=count)["count"]) for table in tables))


def completed(*columns: str) -> list[tuple[Any, ...]]:
    """Return these columns of the completed jobs."""
    return reading(lambda: list(_completed().values_list(*columns)))


def speed(jobs: int) -> tuple[float, float]:
    """Return the seconds from the first claim to the last settle, and the jobs per second.

    Raises:
        BenchmarkFailed: another number of jobs was completed.
    """
    found = reading(
        lambda: _completed().aggregate(
            jobs=Count("pk"), first=Min("claimed_at"), last=Max("completed_at")
        )
    )
    if found["jobs"] != jobs:
        raise BenchmarkFailed(f"{found['jobs']} of {jobs} jobs were completed")
    seconds = (found["last"] - found["first"]).total_seconds()
    return seconds, jobs / max(seconds, LEAST_SECONDS)


def complete(job_ids: Sequence[UUID]) -> None:
    """Mark these claimed jobs completed, without anything else a settle does."""
    jobs = JobQueue.objects.unscoped(_REASON).filter(pk__in=job_ids)
    in_transaction(lambda: jobs.update(status=Status.COMPLETED, ready=False))


def _completed() -> Any:
    jobs = JobQueue.objects.unscoped(_REASON)
    return jobs.filter(firm__in=bench_firms(), status=Status.COMPLETED)
