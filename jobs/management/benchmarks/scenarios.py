"""The benchmarks by name, with what they measure and their usual size."""

from __future__ import annotations

from jobs.management.benchmarks.claim import measure_claim
from jobs.management.benchmarks.drain import measure_drain
from jobs.management.benchmarks.enqueue import measure_enqueue
from jobs.management.benchmarks.fairness import measure_fairness
from jobs.management.benchmarks.latency import measure_latency
from jobs.management.benchmarks.locks import measure_locks
from jobs.management.benchmarks.scenario import Scenario

_ALL = (
    Scenario(
        name="drain",
        measures=(
            "Workers are idle when all jobs appear at once; timed from the first claim to the last"
            " settled job, by the database's clock. Raw is a loop of bare SQL that claims 500 jobs"
            " of the same table and completes them, in as many processes, with no handler. Each job"
            " appends 24 bytes to a file; the table has the processor time and the context switches"
            " of the workers per job, and where it runs here the server's."
        ),
        run=measure_drain,
        has_workers=True,
        default_jobs=20_000,
        default_concurrency=100,
    ),
    Scenario(
        name="enqueue",
        measures=(
            "enqueue_many() of 1,000 jobs at a time beside COPY (on SQLite: one prepared INSERT) of"
            " the same rows, and enqueue() beside a bare INSERT of the same row, each with its own"
            " commit. The figures below the table are those of enqueue_many()."
        ),
        run=measure_enqueue,
        default_jobs=20_000,
    ),
    Scenario(
        name="latency",
        measures=(
            "Idle workers get one job at a time, at random moments. p50 and p99 run from the insert"
            " to the start of the handler; the table has the way to the claim as well, the share of"
            " a core that a worker takes while idle, and the transactions per second of the whole"
            " database meanwhile."
        ),
        run=measure_latency,
        has_workers=True,
        default_jobs=100,
        default_firms=10,
        default_concurrency=10,
    ),
    Scenario(
        name="claim",
        measures=(
            "claim(100) as a worker calls it: with a few jobs of each firm in the table and nothing"
            " else (base), and with --jobs older rows of several kinds beside them. What was"
            " claimed goes back. Each ratio is to the base just before."
        ),
        run=measure_claim,
        default_jobs=100_000,
    ),
    Scenario(
        name="fairness",
        measures=(
            "One firm has all of --jobs, older than the few of each of --firms light ones. A worker"
            " without processes claims in batches of several sizes: after how many services each"
            " light firm had its first turn, Jain's index over the services of all firms (1 is"
            " perfectly fair), and what a claim took."
        ),
        run=measure_fairness,
        default_jobs=100_000,
        default_firms=1_000,
    ),
    Scenario(
        name="locks",
        measures=(
            "Workers work off jobs with 5 lock keys per firm. p50 and p99 run from the end of a job"
            " to the claim of the next one of its key, by the database's clock."
        ),
        run=measure_locks,
        has_workers=True,
        default_jobs=5_000,
        default_firms=10,
        default_concurrency=14,
        default_processes=4,
    ),
)
SCENARIOS = {scenario.name: scenario for scenario in _ALL}
