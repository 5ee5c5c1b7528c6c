"""How long a freed lock key waits for its next job: `python -m tests.benchmarks.locks`.

Four worker processes with more threads than there are keys run keyed jobs while some of them are
killed. Measured by trigger with the database's clock, from the moment a job gave its key up (it
settled, or was rescued) to the moment the next job of the key was claimed. The bound is 300 ms.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from tests.benchmarks.harness import empty_database, keep

JOBS = 20_000
KEYS = 50
KILLS = 20
WORKERS = 4
CONCURRENCY = 14
LEASE_SECONDS = 2.0
BOUND_MS = 300
SETTLED_WITHIN_SECONDS = 900


def main() -> int:
    """Measure and print; return 0."""
    with empty_database() as vendor, tempfile.TemporaryDirectory() as folder:
        text = keep("locks", vendor, _measure(Path(folder)))
        sys.stdout.write(f"{text}\n")
    return 0


def _measure(folder: Path) -> dict[str, Any]:
    from jobs.states import Status
    from tenants.models import Firm
    from tests.support.handover import recorded_handovers, waits
    from tests.support.scenario import Scenario
    from tests.support.workers import Fleet

    queue = Scenario(Firm.objects.create(name="Keyed", slug="keyed"), folder)
    fleet = Fleet(folder)
    with recorded_handovers():
        for number in range(KEYS):
            queue.add(JOBS // KEYS, job_type="process.work", lock_key=f"key-{number}")
        begun = time.monotonic()
        try:
            _run(queue, fleet)
            seconds = time.monotonic() - begun
        finally:
            fleet.kill()
        gaps = [gap * 1000 for gap in waits()]
    assert queue.statuses() == {Status.COMPLETED: JOBS}, queue.statuses()
    return {
        "jobs": JOBS,
        "keys": KEYS,
        "kills": KILLS,
        "handovers": len(gaps),
        "p50_ms": round(median(gaps), 1),
        "p99_ms": round(gaps[int(len(gaps) * 0.99)], 1),
        "max_ms": round(gaps[-1], 1),
        "over_300_ms": sum(gap > BOUND_MS for gap in gaps),
        "jobs_per_second": round(JOBS / seconds),
    }


def _run(queue: Any, fleet: Any) -> None:
    """Work the jobs off, replacing a killed worker at KILLS moments on the way."""
    from jobs.states import Status
    from tests.support.waiting import wait_until

    rng = Random(3)
    arguments = ("--concurrency", str(CONCURRENCY))
    workers = fleet.start_many(WORKERS, *arguments, lease_seconds=LEASE_SECONDS)
    for kill in range(KILLS):
        done = JOBS * (kill + rng.random()) / (KILLS + 1)
        wait_until(
            lambda: queue.statuses()[Status.COMPLETED] >= done,  # noqa: B023 - waited for at once
            "the moment of the next kill",
            timeout=SETTLED_WITHIN_SECONDS,
        )
        workers.pop(0).kill()
        workers.append(fleet.start(*arguments, lease_seconds=LEASE_SECONDS).wait_until_started())
    queue.wait_until_settled(timeout=SETTLED_WITHIN_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
