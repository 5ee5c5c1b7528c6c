"""Deficit round robin in its simplest form: job by job, in exact fractions, without batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction


def services(weights: Mapping[int, float], jobs: Mapping[int, int]) -> Iterator[int]:
    """Yield the firm whose job is next, until no firm has a job left."""
    left = dict(jobs)
    credit = dict.fromkeys(left, Fraction(0))
    while any(left.values()):
        for firm_id in sorted(left):
            if not left[firm_id]:
                continue
            credit[firm_id] += Fraction(str(weights[firm_id]))
            while credit[firm_id] >= 1 and left[firm_id]:
                credit[firm_id] -= 1
                left[firm_id] -= 1
                yield firm_id
