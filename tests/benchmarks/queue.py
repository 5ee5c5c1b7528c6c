"""The queue by itself: `python -m tests.benchmarks.queue` runs `bench_queue` for each scenario.

Each scenario runs on an empty database. Prints the tables, and keeps the figures as JSON under
var/bench/.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.benchmarks.harness import empty_database, keep

# Each scenario is large enough to show something. Those with a raw loop alternate with that.
RUNS = (
    ("drain", "--jobs", "100000", "--rounds", "3"),
    ("drain", "--jobs", "100000", "--processes", "2", "--rounds", "3"),
    ("enqueue", "--jobs", "50000", "--rounds", "3"),
    ("latency", "--jobs", "200"),
    ("claim", "--jobs", "1000000"),
    ("fairness", "--jobs", "300000", "--firms", "10000"),
    ("locks", "--jobs", "20000"),
)


def main() -> int:
    """Measure and print; return 0."""
    with empty_database() as vendor:
        keep("queue", vendor, {"queue": [_measure(arguments) for arguments in RUNS]})
    return 0


def _measure(arguments: tuple[str, ...]) -> dict[str, Any]:
    from jobs.management.benchmarks.scenarios import SCENARIOS
    from jobs.management.commands.bench_queue import Command, print_report
    from tests.support.databases import database_url

    measured: dict[str, Any] = json.loads(
        subprocess.run(
            [sys.executable, "manage.py", "bench_queue", *arguments, "--json"],
            env={**os.environ, "DATABASE_URL": database_url()},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
    )
    print_report(Command(), SCENARIOS[measured["scenario"]], measured)
    return measured


if __name__ == "__main__":
    sys.exit(main())
