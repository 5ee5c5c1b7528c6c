"""What fair turns cost and give: `python -m tests.benchmarks.fairness`.

Puts one firm with 300,000 jobs in front of 10,000 firms with a few each, claims in batches of several
sizes, and prints per size what a claim took (median and 95th percentile), after how many services
the first and the last light firm had its turn, and Jain's index over the shares of the light firms
and the heavy one (1 is perfectly fair). Keeps the figures as JSON under var/bench/.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from statistics import median, quantiles
from typing import Any

from tests.benchmarks.harness import empty_database, keep

FIRMS = 10_000
HEAVY_JOBS = 300_000
LIGHT_JOBS = 6
# How much a worker claims at once, and how many services to look at.
BATCHES = {1: 200, 10: 1_000, 100: 5_000, 500: 2 * (FIRMS + 1)}


def main() -> int:
    """Measure and print; return 0."""
    with empty_database() as vendor:
        results = _measure()
        _print(results, vendor)
        keep("fairness", vendor, {"fairness": results})
    return 0


def _measure() -> list[dict[str, Any]]:
    from tests.support.backlog import fill, make_firms

    heavy, *light = make_firms(FIRMS + 1)
    fill({heavy: HEAVY_JOBS}, age_seconds=7_200)
    fill(dict.fromkeys(light, LIGHT_JOBS))
    return [_serve(batch, services, heavy) for batch, services in BATCHES.items()]


def _serve(batch: int, services: int, heavy: int) -> dict[str, Any]:
    from tests.support.backlog import Server, jain

    server = Server()
    times: list[float] = []
    order: list[int] = []
    while len(order) < services:
        begun = time.perf_counter()
        claims = server.claim(batch)
        times.append((time.perf_counter() - begun) * 1_000)
        order += server.finish(claims)
    first = {firm_id: place for place, firm_id in reversed(list(enumerate(order, 1)))}
    waits = [place for firm_id, place in first.items() if firm_id != heavy]
    return {
        "batch": batch,
        "p50_ms": round(median(times), 2),
        "p95_ms": round(quantiles(times, n=20)[-1], 2),
        "services": len(order),
        "light_firms": len(waits),
        "first_turn": min(waits),
        "last_first_turn": max(waits),
        "jain": round(jain(list(Counter(order).values())), 4),
    }


def _print(results: list[dict[str, Any]], vendor: str) -> None:
    from rich.console import Console
    from rich.table import Table

    title = f"{vendor}: {FIRMS:,} light firms behind one with {HEAVY_JOBS:,} jobs"
    table = Table(*results[0], title=title)
    for row in results:
        table.add_row(*map(str, row.values()))
    Console(width=140).print(table)


if __name__ == "__main__":
    sys.exit(main())
