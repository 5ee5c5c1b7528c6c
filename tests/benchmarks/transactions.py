"""`ctx.transaction()` beside a bare transaction: `python -m tests.benchmarks.transactions`.

Four threads each write two rows and commit. The bare loop does only that; with a worker's jobs, the
same transaction completes the job. The jobs' time is from the start of the first handler to the end
of the worker: storing jobs and starting a worker have benchmarks of their own.
"""

from __future__ import annotations

import logging
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from tests.benchmarks.harness import empty_database, keep

THREADS, JOBS, ROUNDS, ROWS = 4, 8_000, 5, 1_000


def main() -> int:
    """Measure and print; return 0."""
    with empty_database() as vendor:
        logging.disable(logging.INFO)
        bare, ours = _prepared()
        points = [(JOBS / bare(), JOBS / ours()) for _ in range(ROUNDS)]
        for bare_rate, our_rate in points:
            sys.stdout.write(f"bare {bare_rate:,.0f}/s, ctx.transaction() {our_rate:,.0f}/s\n")
        ratio = median(ours / bare for bare, ours in points)
        sys.stdout.write(f"ratio {ratio:.2f}\n")
        keep("transactions", vendor, {"ratio": ratio, "points": points})
    return 0


def _prepared() -> tuple[Callable[[], float], Callable[[], float]]:
    """Create the table and the job type; return both ways to write `JOBS` times, in seconds."""
    from django.db import connection, transaction

    from jobs.execution.context import JobContext
    from jobs.queue import EnqueueSpec, enqueue_many
    from jobs.registry import JobPayload, job
    from tests.factories.tenants import FirmFactory
    from tests.support.worker_loop import worker_loop

    firm = FirmFactory()
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE bench_row (id integer PRIMARY KEY, n integer)")
        for number in range(ROWS):
            cursor.execute("INSERT INTO bench_row VALUES (%s, 0)", [number])

    def write() -> None:
        # The rows are locked in order, so that two threads cannot deadlock.
        with connection.cursor() as cursor:
            for number in sorted(random.sample(range(ROWS), 2)):
                cursor.execute("UPDATE bench_row SET n = n + 1 WHERE id = %s", [number])

    starts: list[float] = []

    @job("bench.transaction", category="sync", payload=JobPayload)
    def handle(payload: JobPayload, ctx: JobContext) -> None:
        starts.append(time.monotonic())
        with ctx.transaction():
            write()

    def write_alone(times: int) -> None:
        for _ in range(times):
            with transaction.atomic():
                write()
        connection.close()

    def bare() -> float:
        begun = time.monotonic()
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(write_alone, [JOBS // THREADS] * THREADS))
        return time.monotonic() - begun

    def ours() -> float:
        enqueue_many([EnqueueSpec("bench.transaction")] * JOBS, firm=firm)
        starts.clear()
        worker_loop(concurrency=THREADS).run()
        return time.monotonic() - min(starts)

    return bare, ours


if __name__ == "__main__":
    sys.exit(main())
