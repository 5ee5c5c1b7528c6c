"""Which category wins, the safety net, and which verdicts get no label, in numbers."""

from __future__ import annotations

import pytest

from mail.llm.base import Category
from mail.llm.signals import Signal
from mail.llm.verdict import FYI_UNTIL, REPLY_FROM, decide

pytestmark = pytest.mark.req("M-09", "M-12")

REPLY, ACTION, PAYMENT, FYI, _ = Category


def verdict(scores, chance=0.0, *, automated=False):
    signals = [Signal("s", category, weight, "because") for category, weight in scores.items()]
    return decide(signals, chance, automated=automated)


@pytest.mark.parametrize(
    ("scores", "chance", "expected"),
    [
        ({}, 0.9, REPLY),
        ({}, 0.1, FYI),
        ({ACTION: 3.0}, 0.9, ACTION),
        ({PAYMENT: 3.0}, 0.9, PAYMENT),
        ({ACTION: 4.0, PAYMENT: 4.0}, 0.0, ACTION),
        ({ACTION: 4.0, PAYMENT: 5.0}, 0.0, PAYMENT),
        ({ACTION: 3.0, FYI: 5.0}, 0.9, FYI),
        ({ACTION: 2.0}, 0.9, REPLY),
        ({ACTION: 2.0}, 0.1, FYI),
    ],
)
def test_priorities(scores, chance, expected):
    assert verdict(scores, chance).category is expected


def test_automated_mail_gets_no_reply_however_strongly_it_asks():
    assert verdict({}, 0.99, automated=True).category is FYI
    assert verdict({PAYMENT: 4.0}, 0.99, automated=True).category is PAYMENT


def test_between_the_bars_nothing_is_labelled():
    assert verdict({}, REPLY_FROM).labelled
    assert verdict({}, FYI_UNTIL).labelled
    between = verdict({}, (REPLY_FROM + FYI_UNTIL) / 2)
    assert not between.labelled
    assert between.category is FYI


def test_it_is_as_sure_as_the_chance_and_never_certain():
    assert [verdict({}, one).confidence for one in (0.5, 0.8, 1.0)] == [0.5, 0.8, 0.95]
    assert [verdict({}, one).confidence for one in (0.0, 0.1)] == [0.95, 0.9]
    close, clear, huge = (verdict({ACTION: lead}).confidence for lead in (3.0, 5.0, 400.0))
    assert close < clear < huge <= 0.95
