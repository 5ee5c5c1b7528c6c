"""`bench_queue drain`: no-op jobs of many firms, run by real workers and by a loop of bare SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from jobs.benchmarks import rows
from jobs.benchmarks.firms import BenchmarkFirms
from jobs.benchmarks.raw.ceiling import work_off
from jobs.benchmarks.rows import Span
from jobs.benchmarks.scenario import Figures, Plan, Point, Scenario
from jobs.benchmarks.workers import serving
from jobs.engine.wakeup import wake
from jobs.errors import BenchmarkFailed
from jobs.states import Category


class Drain(Scenario):
    """Runs jobs as fast as workers can."""

    name = "drain"
    measures = (
        "Workers are idle when all jobs appear at once; timed from the first claim to the last"
        " settled job, by the database's clock. Raw is a loop of bare SQL that claims 500 jobs of"
        " the same table and completes them, in as many processes, with no handler."
    )
    has_workers = True
    default_jobs = 20_000
    default_concurrency = 100

    def measure(self, plan: Plan, bench_firms: BenchmarkFirms) -> Figures:
        """Alternate between workers and the bare loop, on equal jobs."""
        firms = bench_firms.make(plan.firms)
        points: list[Point] = []
        product: list[Span] = []
        raw: list[Span] = []
        for number in range(1, plan.rounds + 1):
            product.append(_time(lambda: _by_workers(plan, firms), plan, firms))
            bench_firms.clear()
            raw.append(_time(lambda: _by_bare_loop(plan, firms), plan, firms))
            bench_firms.clear()
            points.append(
                {
                    "round": number,
                    "seconds": product[-1].seconds,
                    "jobs_per_second": product[-1].jobs_per_second,
                    "raw_seconds": raw[-1].seconds,
                    "raw_jobs_per_second": raw[-1].jobs_per_second,
                    "ratio": product[-1].jobs_per_second / raw[-1].jobs_per_second,
                }
            )
        rate = median(span.jobs_per_second for span in product)
        raw_rate = median(span.jobs_per_second for span in raw)
        return Figures(
            seconds=median(span.seconds for span in product),
            jobs_per_second=rate,
            raw_jobs_per_second=raw_rate,
            ratio=rate / raw_rate,
            points=points,
        )


def _time(work: Callable[[], None], plan: Plan, firms: Sequence[int]) -> Span:
    work()
    span = rows.completed_span(firms)
    if span.jobs != plan.jobs:
        raise BenchmarkFailed(f"{span.jobs} of {plan.jobs} jobs were completed")
    return span


def _by_workers(plan: Plan, firms: Sequence[int]) -> None:
    with serving(plan) as workers:
        rows.fill(rows.spread(plan.jobs, firms))
        wake({Category.MAINTENANCE})
        workers.wait_until_settled(firms, plan.jobs)


def _by_bare_loop(plan: Plan, firms: Sequence[int]) -> None:
    rows.fill(rows.spread(plan.jobs, firms))
    work_off(firms, plan.processes)
