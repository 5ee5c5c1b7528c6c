"""Due schedules that this process leaves to others: those of unknown types and in unknown zones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jobs.engine import dialects
from jobs.engine.dialects import LOCK_TIMEOUT_MILLISECONDS
from jobs.engine.transactions import fetch, in_transaction, run
from jobs.registry.timetable import is_time_zone


def missing_zones(job_types: Sequence[str]) -> list[str]:
    """Return the time zones of due schedules of these types that this host does not have."""
    found = fetch(
        f"""
        SELECT DISTINCT s.time_zone FROM jobs_schedule s
        WHERE s.enabled AND s.next_run_at <= {dialects.current().now_sql()}
          AND s.job_type IN ({placeholders(job_types)})
        """,
        [*job_types],
    )
    return sorted(zone for (zone,) in found if not is_time_zone(zone))


def record_left(job_types: Sequence[str], grace_seconds: float) -> None:
    """Store why due schedules do not run, of which nobody knows the type or has the time zone.

    Raises:
        LockTimeout: another transaction has locked one of the rows.
    """

    def record(one: Callable[[Sequence[str], float], int]) -> None:
        in_transaction(
            lambda: one(job_types, grace_seconds), lock_timeout_ms=LOCK_TIMEOUT_MILLISECONDS
        )

    record(record_unknown_types)
    record(record_missing_zones)


def record_unknown_types(job_types: Sequence[str], grace_seconds: float) -> int:
    """Store an error on due schedules whose type is not in `job_types`: that no code knows it.

    Newer code gets `grace_seconds` to run them first. Each schedule is written once; returns how
    many were. Must run inside `in_transaction`.
    """
    return _record(
        "No handler registered for job_type: ",
        "job_type",
        f"job_type NOT IN ({placeholders(job_types)})",
        job_types,
        grace_seconds,
    )


def record_missing_zones(job_types: Sequence[str], grace_seconds: float) -> int:
    """Store an error on due schedules of these types that no host runs, for want of a time zone.

    Other hosts get `grace_seconds` to run them first. Each schedule is written once; returns how
    many were. Must run inside `in_transaction`.
    """
    zones = missing_zones(job_types)
    if not zones:
        return 0
    return _record(
        "No worker has the time zone: ",
        "time_zone",
        f"time_zone IN ({placeholders(zones)}) AND job_type IN ({placeholders(job_types)})",
        [*zones, *job_types],
        grace_seconds,
    )


def placeholders(values: Sequence[str]) -> str:
    """Return the parameters of a list in SQL."""
    return ", ".join(["%s"] * len(values))


def _record(
    text: str, column: str, condition: str, values: Sequence[str], grace_seconds: float
) -> int:
    dialect = dialects.current()
    now = dialect.now_sql()
    return run(
        f"""
        UPDATE jobs_schedule SET last_error = %s || {column}, updated_at = {now}
        WHERE enabled AND next_run_at <= {dialect.after_sql(now, "%s")}
          AND {condition} AND last_error <> %s || {column}
        """,
        [text, -grace_seconds, *values, text],
    )
