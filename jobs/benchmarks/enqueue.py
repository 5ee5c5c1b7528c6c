"""`bench_queue enqueue`: jobs stored by the thousand and one by one, beside bare inserts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any, TypeVar

from jobs.benchmarks.firms import BenchmarkFirms
from jobs.benchmarks.measures import percentile
from jobs.benchmarks.raw.inserts import Inserts, bare_inserts
from jobs.benchmarks.scenario import Figures, Plan, Scenario
from jobs.job_handlers import BENCH_JOB_TYPE
from jobs.queue import EnqueueSpec, enqueue, enqueue_many

CHUNK = 1_000
# Single enqueues take about this many times as long, so that many fewer are measured.
SINGLES_PER_JOBS = 10

T = TypeVar("T")


class Enqueue(Scenario):
    """Stores jobs by the public API."""

    name = "enqueue"
    measures = (
        "enqueue_many() of 1,000 jobs at a time beside COPY (on SQLite: one prepared INSERT) of the"
        " same rows, and enqueue() beside a bare INSERT of the same row, each with its own commit."
        " The figures below the table are those of enqueue_many()."
    )
    default_jobs = 20_000

    def measure(self, plan: Plan, bench_firms: BenchmarkFirms) -> Figures:
        """Alternate between enqueues and bare inserts, on equal rows."""
        firms = bench_firms.make(plan.firms)
        many, one = _Pair("enqueue_many, 1,000 at a time"), _Pair("enqueue, one by one")
        # The first call of a process is slower.
        enqueue(BENCH_JOB_TYPE, firm=firms[0])
        bench_firms.clear()
        singles = max(plan.jobs // SINGLES_PER_JOBS, 1)
        for _ in range(plan.rounds):
            with bare_inserts() as bare:
                _measure_many(many, plan.jobs, firms, bare, bench_firms)
                _measure_one(one, singles, firms, bare, bench_firms)
        rate, raw_rate = median(many.rates), median(many.raw_rates)
        return Figures(
            seconds=plan.jobs / rate,
            jobs_per_second=rate,
            raw_jobs_per_second=raw_rate,
            ratio=rate / raw_rate,
            points=[many.point(), one.point()],
        )


class _Pair:
    """What was measured of one way to enqueue, and of the bare inserts beside it."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.rates: list[float] = []
        self.raw_rates: list[float] = []
        # Milliseconds of each call.
        self.calls: list[float] = []

    def point(self) -> dict[str, object]:
        """Return the medians."""
        rate, raw_rate = median(self.rates), median(self.raw_rates)
        return {
            "how": self.how,
            "jobs_per_second": rate,
            "raw_jobs_per_second": raw_rate,
            "ratio": rate / raw_rate,
            "call_p50_ms": percentile(self.calls, 50),
            "call_p99_ms": percentile(self.calls, 99),
        }


def _measure_many(
    pair: _Pair, jobs: int, firms: Sequence[int], bare: Inserts, bench_firms: BenchmarkFirms
) -> None:
    specs = [EnqueueSpec(BENCH_JOB_TYPE)] * jobs
    calls = _time(
        partial(enqueue_many, chunk, firm=firms[number % len(firms)])
        for number, chunk in enumerate(_chunks(specs))
    )
    rows = bare.rows(firms)
    bench_firms.clear()
    raw_calls = _time(partial(bare.insert_many, chunk) for chunk in _chunks(rows))
    bench_firms.clear()
    _note(pair, jobs, calls, raw_calls)


def _measure_one(
    pair: _Pair, jobs: int, firms: Sequence[int], bare: Inserts, bench_firms: BenchmarkFirms
) -> None:
    calls = _time(
        partial(enqueue, BENCH_JOB_TYPE, firm=firms[number % len(firms)]) for number in range(jobs)
    )
    rows = bare.rows(firms)
    bench_firms.clear()
    raw_calls = _time(partial(bare.insert, row) for row in rows)
    bench_firms.clear()
    _note(pair, jobs, calls, raw_calls)


def _time(calls: Iterable[Callable[[], Any]]) -> list[float]:
    """Return the milliseconds that each call took."""
    taken = []
    for call in calls:
        begun = time.perf_counter()
        call()
        taken.append((time.perf_counter() - begun) * 1_000)
    return taken


def _note(pair: _Pair, jobs: int, calls: Sequence[float], raw_calls: Sequence[float]) -> None:
    pair.rates.append(jobs * 1_000 / sum(calls))
    pair.raw_rates.append(jobs * 1_000 / sum(raw_calls))
    pair.calls += calls


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), CHUNK):
        yield items[start : start + CHUNK]
