"""Turns weighed signals and the chance of an answer into a category and its confidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mail.llm.base import Category
from mail.llm.signals import Signal

REPLY_FROM: Final = 0.45
"""The chance from which a mail needs an answer."""
FYI_UNTIL: Final = 0.36
"""The chance up to which a mail is for information; between the two it gets no label."""
_DECISIVE: Final = 3.0
"""A score from which a task or a payment outweighs the questions that come with it."""
_AUTOMATED: Final = 0.95
_LEAST: Final = 0.2
_MOST: Final = 0.95


@dataclass(frozen=True, slots=True)
class Verdict:
    """The category chosen and how sure it is, between 0 and 1; `labelled`: sure enough to show."""

    category: Category
    confidence: float
    labelled: bool = True


def decide(wishes: Sequence[Signal], chance: float, *, automated: bool) -> Verdict:
    """Choose a category.

    Decisive signs of a task or a payment come first (the stronger of the two, a task if equal),
    then decisive news. Automated mail never needs a reply. Otherwise the chance of an answer
    decides; between the two limits the category is FYI and not labelled.
    """
    scores = dict.fromkeys(Category, 0.0)
    for signal in wishes:
        scores[signal.category] += signal.weight
    wish = _stronger_wish(scores)
    news = scores[Category.FYI]
    if scores[wish] >= _DECISIVE and scores[wish] > news:
        rival = max(news, scores[_other(wish)])
        return Verdict(wish, _confidence(scores[wish] - rival))
    if news >= _DECISIVE:
        return Verdict(Category.FYI, _confidence(news - scores[wish]))
    if automated:
        return Verdict(Category.FYI, _AUTOMATED)
    if chance >= REPLY_FROM:
        return Verdict(Category.NEEDS_RESPONSE, round(min(_MOST, chance), 2))
    sure = round(min(_MOST, 1 - chance), 2)
    return Verdict(Category.FYI, sure, labelled=chance <= FYI_UNTIL)


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
