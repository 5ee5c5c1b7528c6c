"""`bench_queue enqueue`: jobs stored by the thousand and one by one, beside bare inserts."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

import psycopg
from django.db import connection

from jobs.engine.wakeup import main_conninfo
from jobs.job_handlers import BENCH_JOB_TYPE
from jobs.management.benchmarks import raw
from jobs.management.benchmarks.firms import clear, make_firms
from jobs.management.benchmarks.scenario import Figures, Plan, percentile
from jobs.models import JobQueue
from jobs.queue import EnqueueSpec, enqueue, enqueue_many

CHUNK = 1_000
# Single enqueues take about this many times as long, so that many fewer are measured.
SINGLES_PER_JOBS = 10

COLUMNS = [field.attname for field in JobQueue._meta.concrete_fields]
NAMES = ", ".join(COLUMNS)
INSERT = f"INSERT INTO jobs_jobqueue ({NAMES}) VALUES ({{}})"
# COPY refuses a table with row level security, so it writes to a copy of the table without it.
TWIN = "jobs_bench_twin"

Client = sqlite3.Connection | psycopg.Connection
Row = tuple[Any, ...]
# Stores rows with one commit.
Insert = Callable[[Sequence[Row]], object]


def measure_enqueue(plan: Plan) -> Figures:
    """Alternate between enqueues and bare inserts, on equal rows."""
    firms = make_firms(plan.firms)
    # The first call of a process is slower.
    enqueue(BENCH_JOB_TYPE, firm=firms[0])
    clear()
    many, one = [
        _measure(how, by, jobs, plan.rounds, firms)
        for how, by, jobs in (
            ("enqueue_many, 1,000 at a time", CHUNK, plan.jobs),
            ("enqueue, one by one", 1, max(plan.jobs // SINGLES_PER_JOBS, 1)),
        )
    ]
    figures = {name: many[name] for name in ("jobs_per_second", "raw_jobs_per_second", "ratio")}
    return {"seconds": plan.jobs / many["jobs_per_second"], **figures, "points": [many, one]}


def _measure(how: str, by: int, jobs: int, rounds: int, firms: Sequence[int]) -> dict[str, Any]:
    """Measure calls that store `by` jobs each; return the medians of the rounds."""
    rates, raw_rates, calls = [], [], []
    for _ in range(rounds):
        milliseconds = _time(_enqueues(by, jobs, firms))
        with _bare() as (rows, insert):
            clear()
            chunks = (rows[start : start + by] for start in range(0, jobs, by))
            raw_milliseconds = _time(partial(insert, chunk) for chunk in chunks)
        clear()
        rates.append(jobs * 1_000 / sum(milliseconds))
        raw_rates.append(jobs * 1_000 / sum(raw_milliseconds))
        calls += milliseconds
    return {
        "how": how,
        "jobs_per_second": median(rates),
        "raw_jobs_per_second": median(raw_rates),
        "ratio": median(rates) / median(raw_rates),
        "call_p50_ms": percentile(calls, 50),
        "call_p99_ms": percentile(calls, 99),
    }


def _enqueues(by: int, jobs: int, firms: Sequence[int]) -> Iterator[Callable[[], object]]:
    specs = [EnqueueSpec(BENCH_JOB_TYPE)] * jobs
    for number, start in enumerate(range(0, jobs, by)):
        firm = firms[number % len(firms)]
        if by == 1:
            yield partial(enqueue, BENCH_JOB_TYPE, firm=firm)
        else:
            yield partial(enqueue_many, specs[start : start + by], firm=firm)


def _time(calls: Iterable[Callable[[], object]]) -> list[float]:
    """Return the milliseconds that each call took."""
    taken = []
    for call in calls:
        begun = time.perf_counter()
        call()
        taken.append((time.perf_counter() - begun) * 1_000)
    return taken


@contextmanager
def _bare() -> Iterator[tuple[list[Row], Insert]]:
    """Yield the stored jobs, and how to store them again in bare SQL."""
    if connection.vendor == "sqlite":
        with raw.connect_to_sqlite(*raw.sqlite_address(connection)) as client:
            yield _rows(client, COLUMNS), _on_sqlite(client)
        return
    with raw.connect_to_postgresql(main_conninfo()) as client:
        # JSON is read as text, so that it can be written again unchanged.
        json = ("payload", "result")
        columns = [f"{name}::text" if name in json else name for name in COLUMNS]
        client.execute(f"DROP TABLE IF EXISTS {TWIN}")
        like = "LIKE jobs_jobqueue INCLUDING ALL"
        client.execute(f"CREATE TABLE {TWIN} ({like}) WITH (fillfactor = 45)")
        try:
            yield _rows(client, columns), _on_postgresql(client)
        finally:
            client.execute(f"DROP TABLE {TWIN}")


def _rows(client: Client, columns: Sequence[str]) -> list[Row]:
    jobs = f"FROM jobs_jobqueue WHERE job_type = '{BENCH_JOB_TYPE}'"
    return client.execute(f"SELECT {', '.join(columns)} {jobs}").fetchall()


def _on_sqlite(client: sqlite3.Connection) -> Insert:
    """Store by one prepared INSERT."""
    statement = INSERT.format(", ".join("?" * len(COLUMNS)))

    def insert(rows: Sequence[Row]) -> None:
        if len(rows) == 1:
            client.execute(statement, rows[0])
            return
        client.execute("BEGIN IMMEDIATE")
        client.executemany(statement, rows)
        client.execute("COMMIT")

    return insert


def _on_postgresql(client: psycopg.Connection) -> Insert:
    """Store many by COPY into the copy of the table, one by INSERT into the table itself."""
    statement = INSERT.format(", ".join(["%s"] * len(COLUMNS)))

    def insert(rows: Sequence[Row]) -> None:
        if len(rows) == 1:
            client.execute(statement, rows[0])
            return
        into = f"COPY {TWIN} ({NAMES}) FROM STDIN"
        with client.cursor() as cursor, cursor.copy(into) as copy:
            for row in rows:
                copy.write_row(row)

    return insert
