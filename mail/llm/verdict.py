"""From weighed signals to a category: priorities, the safety net, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mail.llm.base import Category
from mail.llm.signals.signal import Signal

_DECISIVE: Final = 3.0
"""A score from which a task or a payment outweighs the questions that come with it."""
_NOTABLE: Final = 2.0
"""A score from which a task or a payment counts at all against a reply or FYI."""
_SAFE_LEAD: Final = 1.0
"""How far FYI must lead a reply that may be expected."""
_LEAST: Final = 0.2
_UNSURE: Final = 0.4
_MOST: Final = 0.95
_QUESTION_SHARE: Final = 0.5
"""Asking politely is how tasks and invoices are worded, so it contradicts them only in part."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The category chosen and how sure it is, between 0 and 1."""

    category: Category
    confidence: float


def decide(signals: Sequence[Signal], *, automated: bool) -> Verdict:
    """Choose a category.

    Decisive signs of a task or a payment come first, the stronger of the two, a task if equal.
    Between a reply and FYI the stronger wins, the reply when it is close. Automated mail never
    needs a reply, whatever it asks.
    """
    scores = dict.fromkeys(Category, 0.0)
    for signal in signals:
        scores[signal.category] += signal.weight
    if automated:
        scores[Category.NEEDS_RESPONSE] = 0.0
    wish = _stronger_wish(scores)
    reply, fyi = scores[Category.NEEDS_RESPONSE], scores[Category.FYI]
    if scores[wish] >= _DECISIVE and scores[wish] > fyi:
        rival = max(fyi, scores[_other(wish)], reply * _QUESTION_SHARE)
        return Verdict(wish, _confidence(scores[wish] - rival))
    if automated:
        return Verdict(Category.FYI, _confidence(fyi - scores[wish]))
    if scores[wish] >= _NOTABLE and scores[wish] > max(reply, fyi):
        return Verdict(wish, min(_UNSURE, _confidence(scores[wish] - max(reply, fyi))))
    if fyi - reply >= _SAFE_LEAD:
        return Verdict(Category.FYI, _confidence(fyi - max(reply, scores[wish])))
    confidence = _confidence(reply - max(fyi, scores[wish]))
    close = reply - fyi < _SAFE_LEAD
    return Verdict(Category.NEEDS_RESPONSE, min(_UNSURE, confidence) if close else confidence)


def _stronger_wish(scores: dict[Category, float]) -> Category:
    if scores[Category.PAYMENT_REQUEST] > scores[Category.ACTION_REQUIRED]:
        return Category.PAYMENT_REQUEST
    return Category.ACTION_REQUIRED


def _other(wish: Category) -> Category:
    if wish is Category.PAYMENT_REQUEST:
        return Category.ACTION_REQUIRED
    return Category.PAYMENT_REQUEST


def _confidence(lead: float) -> float:
    """Return how sure a lead makes: 0.2 without any, 0.65 at 3 points, never above 0.95."""
    lead = max(0.0, lead)
    return round(min(_MOST, _LEAST + 0.9 * lead / (lead + 3.0)), 2)
