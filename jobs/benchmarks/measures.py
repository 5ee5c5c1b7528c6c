"""The arithmetic of benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that `percent` of the values do not exceed; there must be some."""
    ordered = sorted(values)
    return ordered[max(ceil(len(ordered) * percent / 100) - 1, 0)]


def jain(shares: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1 where all are equal, 1/n where one has everything."""
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))
