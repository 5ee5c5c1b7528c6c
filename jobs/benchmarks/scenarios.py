"""The benchmarks by name."""

from __future__ import annotations

from jobs.benchmarks.claim import ClaimGrowth
from jobs.benchmarks.drain import Drain
from jobs.benchmarks.enqueue import Enqueue
from jobs.benchmarks.fairness import Fairness
from jobs.benchmarks.latency import Latency
from jobs.benchmarks.locks import Locks
from jobs.benchmarks.scenario import Scenario

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (Drain(), Enqueue(), Latency(), ClaimGrowth(), Fairness(), Locks())
}
