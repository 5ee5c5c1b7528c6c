"""`bench_queue enqueue`: jobs stored by the thousand and one by one, beside bare inserts."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

import psycopg
from django.db import connection

from jobs.benchmarks import raw
from jobs.benchmarks.firms import clear, make_firms
from jobs.benchmarks.scenario import Figures, Plan, percentile
from jobs.engine.wakeup import main_conninfo
from jobs.job_handlers import BENCH_JOB_TYPE
from jobs.models import JobQueue
from jobs.queue import EnqueueSpec, enqueue, enqueue_many

CHUNK = 1_000
# Single enqueues take about this many times as long, so that many fewer are measured.
SINGLES_PER_JOBS = 10

COLUMNS = [field.attname for field in JobQueue._meta.concrete_fields]
NAMES = ", ".join(COLUMNS)
# COPY refuses a table with row level security: it gets a copy of the table without.
TWIN = "jobs_bench_twin"

Row = tuple[Any, ...]
Call = Callable[[], Any]


@dataclass
class Way:
    """One way to enqueue: so many jobs by so many in a call, and what was measured."""

    how: str
    jobs: int
    by: int
    rates: list[float] = field(default_factory=list)
    raw_rates: list[float] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)

    def point(self) -> dict[str, Any]:
        """Return the medians."""
        rate, raw_rate = median(self.rates), median(self.raw_rates)
        return {
            "how": self.how,
            "jobs_per_second": rate,
            "raw_jobs_per_second": raw_rate,
            "ratio": rate / raw_rate,
            "call_p50_ms": percentile(self.milliseconds, 50),
            "call_p99_ms": percentile(self.milliseconds, 99),
        }


@dataclass(frozen=True)
class Bare:
    """A bare connection that stores jobs: many with one commit, or one."""

    # The jobs of these firms, as they can be stored again.
    rows: Callable[[Sequence[int]], list[Row]]
    insert_many: Callable[[Sequence[Row]], object]
    insert: Callable[[Row], object]


def measure_enqueue(plan: Plan) -> Figures:
    """Alternate between enqueues and bare inserts, on equal rows."""
    firms = make_firms(plan.firms)
    # The first call of a process is slower.
    enqueue(BENCH_JOB_TYPE, firm=firms[0])
    clear()
    many = Way("enqueue_many, 1,000 at a time", plan.jobs, CHUNK)
    single = Way("enqueue, one by one", max(plan.jobs // SINGLES_PER_JOBS, 1), 1)
    for _ in range(plan.rounds):
        with _bare() as bare:
            _measure(many, firms, bare)
            _measure(single, firms, bare)
    points = [many.point(), single.point()]
    names = ("jobs_per_second", "raw_jobs_per_second", "ratio")
    return {
        "seconds": plan.jobs / points[0]["jobs_per_second"],
        **{name: points[0][name] for name in names},
        "points": points,
    }


def _measure(way: Way, firms: Sequence[int], bare: Bare) -> None:
    milliseconds = _time(_enqueues(way, firms))
    rows = bare.rows(firms)
    clear()
    chunks = (rows[start : start + way.by] for start in range(0, len(rows), way.by))
    inserts: Iterable[Call] = (
        (partial(bare.insert, row) for row in rows)
        if way.by == 1
        else (partial(bare.insert_many, chunk) for chunk in chunks)
    )
    raw_milliseconds = _time(inserts)
    clear()
    way.rates.append(way.jobs * 1_000 / sum(milliseconds))
    way.raw_rates.append(way.jobs * 1_000 / sum(raw_milliseconds))
    way.milliseconds += milliseconds


def _enqueues(way: Way, firms: Sequence[int]) -> Iterator[Call]:
    specs = [EnqueueSpec(BENCH_JOB_TYPE)] * way.jobs
    for number, start in enumerate(range(0, way.jobs, way.by)):
        firm = firms[number % len(firms)]
        if way.by == 1:
            yield partial(enqueue, BENCH_JOB_TYPE, firm=firm)
        else:
            yield partial(enqueue_many, specs[start : start + way.by], firm=firm)


def _time(calls: Iterable[Call]) -> list[float]:
    """Return the milliseconds that each call took."""
    taken = []
    for call in calls:
        begun = time.perf_counter()
        call()
        taken.append((time.perf_counter() - begun) * 1_000)
    return taken


@contextmanager
def _bare() -> Iterator[Bare]:
    """Connect to the configured database."""
    if connection.vendor == "sqlite":
        with raw.connect_to_sqlite(*raw.sqlite_address(connection)) as client:
            yield _on_sqlite(client)
        return
    with raw.connect_to_postgresql(main_conninfo()) as client:
        client.execute(f"DROP TABLE IF EXISTS {TWIN}")
        like = "LIKE jobs_jobqueue INCLUDING ALL"
        client.execute(f"CREATE TABLE {TWIN} ({like}) WITH (fillfactor = 45)")
        try:
            yield _on_postgresql(client)
        finally:
            client.execute(f"DROP TABLE {TWIN}")


def _on_sqlite(client: sqlite3.Connection) -> Bare:
    """Store by one prepared INSERT, many or one."""
    select = f"SELECT {NAMES} FROM jobs_jobqueue WHERE firm_id BETWEEN ? AND ?"
    insert = f"INSERT INTO jobs_jobqueue ({NAMES}) VALUES ({', '.join('?' * len(COLUMNS))})"

    def insert_many(rows: Sequence[Row]) -> None:
        client.execute("BEGIN IMMEDIATE")
        client.executemany(insert, rows)
        client.execute("COMMIT")

    return Bare(
        rows=lambda firms: client.execute(select, (firms[0], firms[-1])).fetchall(),
        insert_many=insert_many,
        insert=partial(client.execute, insert),
    )


def _on_postgresql(client: psycopg.Connection) -> Bare:
    """Store many by COPY into the copy of the table, one by INSERT into the table itself."""
    json = ("payload", "result")
    wanted = ", ".join(f"{name}::text" if name in json else name for name in COLUMNS)
    select = f"SELECT {wanted} FROM jobs_jobqueue WHERE firm_id = ANY(%s)"
    insert = f"INSERT INTO jobs_jobqueue ({NAMES}) VALUES ({', '.join(['%s'] * len(COLUMNS))})"

    def copy_many(rows: Sequence[Row]) -> None:
        into = f"COPY {TWIN} ({NAMES}) FROM STDIN"
        with client.cursor() as cursor, cursor.copy(into) as copy:
            for row in rows:
                copy.write_row(row)

    return Bare(
        rows=lambda firms: client.execute(select, [list(firms)]).fetchall(),
        insert_many=copy_many,
        insert=partial(client.execute, insert),
    )
