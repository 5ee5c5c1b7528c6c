"""What stays of ended attempts: their records, dead letters, and the counters of the minute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.claim import Claim
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch, reading, run
from jobs.engine.transition import Transition

COUNTED = ("completed", "failed", "dlq", "canceled", "retried")
COUNTERS = (*COUNTED, "wait_ms", "run_ms")
UNKNOWN_TYPE_REASON = "unknown type or payload version"
INDEX = {counter: index for index, counter in enumerate(COUNTED)}


class Counted(NamedTuple):
    """One ended attempt, or job, for the counters."""

    firm_id: int
    category: str
    counter: str
    waited_seconds: float = 0.0
    ran_seconds: float = 0.0


def record_attempts(ended: Sequence[Transition]) -> None:
    """Store the attempts that did not complete their jobs, in the open transaction."""
    table = [
        (
            uuid7(),
            one.job.firm_id,
            one.job.job_id,
            one.job.series,
            one.job.attempts,
            one.job.worker_id,
            one.end.value,
            one.failure.error_class,
            one.failure.message,
            one.failure.traceback,
            one.ran_seconds,
        )
        for one in ended
        if one.end is not None
    ]
    if not table:
        return
    dialect = dialects.current()
    now = dialect.now_sql()
    columns = {
        "id": Column.UUID,
        "firm_id": Column.BIGINT,
        "job_id": Column.UUID,
        "series": Column.INTEGER,
        "number": Column.INTEGER,
        "worker_id": Column.UUID,
        "ending": Column.TEXT,
        "error_class": Column.TEXT,
        "message": Column.TEXT,
        "traceback": Column.TEXT,
        "ran": Column.FLOAT,
    }
    rows, params = dialect.rows_sql("r", columns, table)
    started = f"CASE WHEN r.ran IS NOT NULL THEN {dialect.after_sql(now, '-r.ran')} END"
    run(
        f"""
        INSERT INTO jobs_attempt (
            id, firm_id, job_id, series, number, worker_id, "end", error_class, message, traceback,
            started_at, ended_at
        )
        SELECT r.id, r.firm_id, r.job_id, r.series, r.number, r.worker_id, r.ending, r.error_class,
            r.message, r.traceback, {started}, {now}
        FROM {rows}
        """,
        params,
    )


def open_dead_letters(ended: Sequence[Transition]) -> None:
    """Open the dead letters of these attempts, in the open transaction."""
    table = [
        (
            uuid7(),
            one.job.firm_id,
            one.job.job_id,
            one.job.series,
            one.dead_letter[0].value,
            one.dead_letter[1].error_class,
            one.dead_letter[1].message,
            one.dead_letter[1].fingerprint,
        )
        for one in ended
        if one.dead_letter is not None
    ]
    if not table:
        return
    dialect = dialects.current()
    columns = {
        "id": Column.UUID,
        "firm_id": Column.BIGINT,
        "job_id": Column.UUID,
        "series": Column.INTEGER,
        "reason": Column.TEXT,
        "error_class": Column.TEXT,
        "error": Column.TEXT,
        "fingerprint": Column.TEXT,
    }
    rows, params = dialect.rows_sql("r", columns, table)
    run(
        f"""
        INSERT INTO jobs_deadletterqueue (
            id, firm_id, original_job_id, job_series, moved_at, reason, error_class, error,
            fingerprint, resolution, resolution_note
        )
        SELECT r.id, r.firm_id, r.job_id, r.series, {dialect.now_sql()}, r.reason, r.error_class,
            r.error, r.fingerprint, '', ''
        FROM {rows} WHERE true
        ON CONFLICT (firm_id, original_job_id, job_series) DO NOTHING
        """,
        params,
    )


def count(counted: Iterable[Counted]) -> None:
    """Add to the counters of this minute, in the open transaction."""
    sums: dict[tuple[int, str], list[int]] = {}
    for firm_id, category, counter, waited_seconds, ran_seconds in counted:
        counters = sums.get((firm_id, category))
        if counters is None:
            counters = sums[firm_id, category] = [0] * len(COUNTERS)
        counters[INDEX[counter]] += 1
        counters[-2] += round(waited_seconds * 1000)
        counters[-1] += round(ran_seconds * 1000)
    if not sums:
        return
    dialect = dialects.current()
    # In key order: two workers that add to the same counters cannot deadlock.
    table = [(uuid7(), *key, *counters) for key, counters in sorted(sums.items())]
    columns = {"id": Column.UUID, "firm_id": Column.BIGINT, "category": Column.TEXT}
    columns |= dict.fromkeys(COUNTERS, Column.BIGINT)
    rows, params = dialect.rows_sql("r", columns, table)
    added = ", ".join(f"{name} = jobs_jobminute.{name} + excluded.{name}" for name in COUNTERS)
    run(
        f"""
        INSERT INTO jobs_jobminute (id, firm_id, minute, category, {", ".join(COUNTERS)})
        SELECT r.id, r.firm_id, {dialect.minute_sql(dialect.now_sql())}, r.category,
            {", ".join(f"r.{name}" for name in COUNTERS)}
        FROM {rows} WHERE true
        ON CONFLICT (firm_id, category, minute) DO UPDATE SET {added}
        """,
        params,
        prepared=True,
    )


def unknown_type_releases(claim: Claim) -> tuple[int, float]:
    """Return how often this series was released as of an unknown type, and for how many seconds."""
    dialect = dialects.current()
    ago = dialect.seconds_between_sql("ended_at", dialect.now_sql())
    rows = reading(
        lambda: fetch(
            f"""
            SELECT count(*), COALESCE(max({ago}), 0) FROM jobs_attempt
            WHERE firm_id = %s AND job_id = %s AND series = %s AND "end" = 'released' AND message = %s
            """,
            [
                claim.firm_id,
                dialect.value(Column.UUID, claim.job_id),
                claim.series,
                UNKNOWN_TYPE_REASON,
            ],
        )
    )
    times, seconds = rows[0]
    return times, float(seconds)
