"""Writes what became of attempts: history rows and the counters of the minute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.outcomes import Failure
from jobs.engine.transactions import run
from jobs.states import AttemptEnd

COUNTED = ("completed", "failed", "dlq", "canceled", "retried")
COUNTERS = (*COUNTED, "wait_ms", "run_ms")
PLACE = {word: place for place, word in enumerate(COUNTED)}


@dataclass(frozen=True, kw_only=True)
class EndedAttempt:
    """An attempt that did not complete its job; `ran_seconds` None when it never started."""

    firm_id: int
    job_id: UUID
    series: int
    number: int
    worker_id: UUID | None
    end: AttemptEnd
    failure: Failure
    ran_seconds: float | None = None


class Counted(NamedTuple):
    """One settled attempt, for the counters."""

    firm_id: int
    category: str
    word: str
    waited_seconds: float = 0.0
    ran_seconds: float = 0.0


def record(attempts: Sequence[EndedAttempt]) -> None:
    """Keep these attempts. Joins the transaction of the write they belong to."""
    if not attempts:
        return
    dialect = dialects.current()
    now = dialect.now_sql()
    rows, params = dialect.rows_sql(
        "r",
        {
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
        },
        [
            (
                uuid7(),
                attempt.firm_id,
                attempt.job_id,
                attempt.series,
                attempt.number,
                attempt.worker_id,
                attempt.end.value,
                attempt.failure.error_class,
                attempt.failure.message,
                attempt.failure.traceback,
                attempt.ran_seconds,
            )
            for attempt in attempts
        ],
    )
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


def count(settled: Iterable[Counted]) -> None:
    """Add to the counters of this minute. Joins the transaction of the write it belongs to."""
    sums: dict[tuple[int, str], list[int]] = {}
    for firm_id, category, word, waited_seconds, ran_seconds in settled:
        counters = sums.get((firm_id, category))
        if counters is None:
            counters = sums[firm_id, category] = [0] * len(COUNTERS)
        counters[PLACE[word]] += 1
        counters[-2] += round(waited_seconds * 1000)
        counters[-1] += round(ran_seconds * 1000)
    if not sums:
        return
    dialect = dialects.current()
    # In key order, so that two workers upserting the same keys cannot deadlock.
    table = [(uuid7(), *key, *counters) for key, counters in sorted(sums.items())]
    columns = {"id": Column.UUID, "firm_id": Column.BIGINT, "category": Column.TEXT}
    columns |= dict.fromkeys(COUNTERS, Column.BIGINT)
    rows, params = dialect.rows_sql("r", columns, table, hot=True)
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
        hot=True,
    )
