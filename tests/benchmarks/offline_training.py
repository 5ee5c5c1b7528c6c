"""Fits the prior of the offline classifier: a logistic regression with prescribed signs.

Only few labelled mails need an answer, so each feature may push in one direction only, and all
weights are pulled to 0. In plain Python, a fit takes some seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from mail.llm.features import REASONS
from mail.llm.signals import Prior, chance

NAMES = tuple(REASONS)
STEPS = 300
RAISING = frozenset(
    {
        "addressed", "addressed_alone", "named_sender", "asks_you", "asks_briefly", "asks_last", "wants",
    }
)  # fmt: skip
"""The features that may only raise the chance of an answer; the others may only lower it."""


@dataclass(frozen=True)
class Example:
    """The features of a mail, whether it needs an answer, and how much it counts."""

    facts: Mapping[str, float]
    wanted: bool
    weight: float = 1.0


def fit(examples: Sequence[Example], pull: float) -> Prior:
    """Return the prior that fits best if every weight is pulled to 0 with this strength."""
    means = [_mean([one.facts[name] for one in examples]) for name in NAMES]
    spreads = [
        sqrt(_mean([(one.facts[name] - mean) ** 2 for one in examples])) or 1.0
        for name, mean in zip(NAMES, means, strict=True)
    ]
    rows = [
        [
            *(
                (one.facts[name] - mean) / spread
                for name, mean, spread in zip(NAMES, means, spreads, strict=True)
            ),
            1.0,
        ]
        for one in examples
    ]
    found = _descend(rows, examples, pull)
    weights = {
        name: value / spread for name, value, spread in zip(NAMES, found, spreads, strict=False)
    }
    shift = sum(weights[name] * mean for name, mean in zip(NAMES, means, strict=True))
    return Prior(found[-1] - shift, weights)


def calibrate(odds: Sequence[float], wanted: Sequence[bool]) -> tuple[float, float]:
    """Return slope and shift that turn these log odds into how often an answer is wanted."""
    slope, shift = 1.0, 0.0
    for _ in range(2000):
        errors = [
            chance(slope * one + shift) - is_so for one, is_so in zip(odds, wanted, strict=True)
        ]
        slope -= 0.1 * _mean([error * one for error, one in zip(errors, odds, strict=True)])
        shift -= 0.5 * _mean(errors)
    return slope, shift


def scaled(prior: Prior, slope: float, shift: float) -> Prior:
    """Return the prior whose log odds are these times `slope`, plus `shift`."""
    weights = {name: slope * weight for name, weight in prior.weights.items()}
    return Prior(slope * prior.bias + shift, weights)


def _descend(rows: list[list[float]], examples: Sequence[Example], pull: float) -> list[float]:
    """Descend along the gradient with momentum; a weight of the wrong sign is set to 0."""
    size = len(NAMES) + 1
    signs = [1 if name in RAISING else -1 for name in NAMES] + [0]
    # The trace is an upper bound of the curvature.
    steepest = max(
        sum(
            one.weight * abs(row[place]) * sum(map(abs, row))
            for row, one in zip(rows, examples, strict=True)
        )
        for place in range(size)
    )
    step = 1 / (steepest / 4 + pull)
    now, ahead, momentum = [0.0] * size, [0.0] * size, 1.0
    for _ in range(STEPS):
        slope = [pull * value for value in ahead[:-1]] + [0.0]
        for row, one in zip(rows, examples, strict=True):
            error = one.weight * (chance(sum(map(float.__mul__, row, ahead))) - one.wanted)
            for place, value in enumerate(row):
                slope[place] += error * value
        moved = [
            value - step * down if not sign else sign * max(0.0, sign * (value - step * down))
            for value, down, sign in zip(ahead, slope, signs, strict=True)
        ]
        following = (1 + sqrt(1 + 4 * momentum**2)) / 2
        ahead = [
            new + (momentum - 1) / following * (new - old)
            for new, old in zip(moved, now, strict=True)
        ]
        now, momentum = moved, following
    return now


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
