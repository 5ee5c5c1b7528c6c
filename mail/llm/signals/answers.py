"""What headers and form say for and against an answer, by the weights of a prior."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import exp
from typing import Final

from mail.llm.base import Category
from mail.llm.features import REASONS
from mail.llm.prior import BIAS, WEIGHTS
from mail.llm.signals.signal import Signal

_LEAST: Final = 0.05
_MOST_ODDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Prior:
    """How much each feature raises or lowers the odds of an answer, in log odds."""

    bias: float
    weights: Mapping[str, float]

    def odds(self, facts: Mapping[str, float]) -> float:
        """Return the log odds of an answer."""
        return self.bias + sum(self.weights[name] * facts[name] for name in self.weights)

    def signals(self, facts: Mapping[str, float]) -> Iterator[Signal]:
        """Yield a signal for each fact that raises or lowers the odds noticeably."""
        for name, weight in self.weights.items():
            pull = weight * facts[name]
            if abs(pull) >= _LEAST:
                category = Category.NEEDS_RESPONSE if pull > 0 else Category.FYI
                yield Signal(name, category, round(abs(pull), 2), REASONS[name])


TRAINED: Final = Prior(BIAS, WEIGHTS)


def chance(odds: float) -> float:
    """Return the probability that log odds stand for."""
    return 1 / (1 + exp(-max(-_MOST_ODDS, min(_MOST_ODDS, odds))))
