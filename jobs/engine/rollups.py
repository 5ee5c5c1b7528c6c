"""Stores what a worker measured: times by bucket, and which types fail.

A worker collects in memory and writes every few seconds, so attempts cost no statement of their
own. What a killed worker had not written is lost, because no decision rests on these figures: they
are only shown to people.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from math import inf
from typing import NamedTuple

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.clock import database_now
from jobs.engine.dialects import LOCK_TIMEOUT_MILLISECONDS, Column
from jobs.engine.transactions import LockTimeout, fetch, in_transaction, run
from jobs.models.rollup import BUCKET_SECONDS, LONG_SPAN, SHORT_SPAN
from jobs.states import Measure

# A type that has not failed for this long counts as recovered.
RECOVERED_SECONDS = 900
BOUNDS = (*BUCKET_SECONDS, inf)


class Measured(NamedTuple):
    """Attempts that ended alike: how long their jobs were due, and how long their handlers ran."""

    firm_id: int
    category: str
    job_type: str
    waited_seconds: Sequence[float]
    ran_seconds: Sequence[float]
    failed: bool


class Rollups:
    """What one worker measured since it last wrote; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempts: Counter[tuple[int, str, str, int]] = Counter()
        self._failing: set[tuple[int, str]] = set()

    def add(self, measured: Iterable[Measured]) -> None:
        """Add these attempts."""
        with self._lock:
            for firm_id, category, job_type, waited, ran, failed in measured:
                for measure, seconds in ((Measure.WAIT.value, waited), (Measure.RUN.value, ran)):
                    for bucket, number in by_bucket(seconds, BOUNDS):
                        self._attempts[firm_id, category, measure, bucket] += number
                if failed:
                    self._failing.add((firm_id, job_type))

    def store(self) -> bool:
        """Write what was added; False if another worker kept the rows locked: it is written later.

        Raises:
            DatabaseError: the statement failed; it is written later, too.
        """
        with self._lock:
            attempts, failing = self._attempts, self._failing
            self._attempts, self._failing = Counter(), set()
        if not attempts:
            return True
        stored = False
        try:
            in_transaction(
                lambda: _store(attempts, failing), lock_timeout_ms=LOCK_TIMEOUT_MILLISECONDS
            )
            stored = True
        except LockTimeout:
            pass
        finally:
            if not stored:
                with self._lock:
                    self._attempts += attempts
                    self._failing |= failing
        return stored


def by_bucket(amounts: Sequence[float], bounds: Iterable[float]) -> Iterator[tuple[int, int]]:
    """Yield each bucket that amounts fall into, and how many; its upper bound is included."""
    ordered = sorted(amounts)
    counted = 0
    for bucket, bound in enumerate(bounds):
        within = bisect_right(ordered, bound)
        if within > counted:
            yield bucket, within - counted
            counted = within


def _store(attempts: Counter[tuple[int, str, str, int]], failing: set[tuple[int, str]]) -> None:
    now = database_now()
    # A firm may be deleted between measuring and writing; nobody would delete rows written then.
    firms = _keep_firms({firm_id for firm_id, *_ in attempts})
    attempts = Counter({key: number for key, number in attempts.items() if key[0] in firms})
    failing = {key for key in failing if key[0] in firms}
    if attempts:
        for minutes in (SHORT_SPAN, LONG_SPAN):
            _store_latencies(attempts, minutes, span_start(now, minutes))
    if failing:
        _store_failing(failing)


def _keep_firms(firm_ids: Collection[int]) -> set[int]:
    """Return those of the firms that exist, and lock them against deletion in this transaction."""
    dialect = dialects.current()
    rows, params = dialect.rows_sql("r", {"id": Column.BIGINT}, [(one,) for one in firm_ids])
    kept = f"SELECT id FROM tenants_firm WHERE id IN (SELECT r.id FROM {rows}) ORDER BY id"
    return {firm_id for (firm_id,) in fetch(f"{kept} {dialect.for_key_share}", params)}


def span_start(moment: datetime, minutes: int) -> datetime:
    """Return the start of the span of `minutes`, at most 60, in which `moment` lies."""
    return moment.replace(minute=moment.minute - moment.minute % minutes, second=0, microsecond=0)


def _store_latencies(
    attempts: Counter[tuple[int, str, str, int]], minutes: int, start: datetime
) -> None:
    columns = {
        "id": Column.UUID,
        "firm_id": Column.BIGINT,
        "category": Column.TEXT,
        "measure": Column.TEXT,
        "bucket": Column.INTEGER,
        "attempts": Column.BIGINT,
        "span_minutes": Column.INTEGER,
        "span_start": Column.TIME,
    }
    # In key order: two workers that add to the same rows cannot deadlock.
    table = [(uuid7(), *key, number, minutes, start) for key, number in sorted(attempts.items())]
    rows, params = dialects.current().rows_sql("r", columns, table)
    run(
        f"""
        INSERT INTO jobs_latencybucket ({", ".join(columns)})
        SELECT r.* FROM {rows} WHERE true
        ON CONFLICT (firm_id, category, measure, span_minutes, span_start, bucket)
        DO UPDATE SET attempts = jobs_latencybucket.attempts + excluded.attempts
        """,
        params,
    )


def _store_failing(failing: set[tuple[int, str]]) -> None:
    dialect = dialects.current()
    now = dialect.now_sql()
    columns = {"id": Column.UUID, "firm_id": Column.BIGINT, "job_type": Column.TEXT}
    rows, params = dialect.rows_sql("r", columns, [(uuid7(), *key) for key in sorted(failing)])
    recovered = dialect.after_sql("jobs_failingtype.last_failed_at", str(RECOVERED_SECONDS))
    run(
        f"""
        INSERT INTO jobs_failingtype (id, firm_id, job_type, failing_since, last_failed_at)
        SELECT r.id, r.firm_id, r.job_type, {now}, {now} FROM {rows} WHERE true
        ON CONFLICT (firm_id, job_type) DO UPDATE SET
            failing_since = CASE WHEN {recovered} < excluded.last_failed_at
                THEN excluded.failing_since ELSE jobs_failingtype.failing_since END,
            last_failed_at = excluded.last_failed_at
        """,
        params,
    )
