"""Priorities between wishes, and the safety net, in numbers."""

from __future__ import annotations

import pytest

from mail.llm.base import Category
from mail.llm.signals.signal import Signal
from mail.llm.verdict import decide

pytestmark = pytest.mark.req("M-09")

REPLY, ACTION, PAYMENT, FYI, _ = Category


def verdict(scores, *, automated=False):
    signals = [Signal("s", category, weight, "because") for category, weight in scores.items()]
    return decide(signals, automated=automated)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ({}, REPLY),
        ({REPLY: 5.0, ACTION: 3.0}, ACTION),
        ({REPLY: 5.0, PAYMENT: 3.0}, PAYMENT),
        ({ACTION: 4.0, PAYMENT: 4.0}, ACTION),
        ({ACTION: 4.0, PAYMENT: 5.0}, PAYMENT),
        ({ACTION: 3.0, FYI: 3.0}, FYI),
        ({REPLY: 3.0, ACTION: 2.0}, REPLY),
        ({ACTION: 2.0, REPLY: 1.0}, ACTION),
        ({ACTION: 1.5}, REPLY),
        ({REPLY: 2.0, FYI: 2.5}, REPLY),
        ({REPLY: 2.0, FYI: 3.0}, FYI),
    ],
)
def test_priorities(scores, expected):
    assert verdict(scores).category is expected


def test_automated_mail_gets_no_reply_however_strongly_it_asks():
    assert verdict({REPLY: 50.0, FYI: 1.0}, automated=True).category is FYI
    assert verdict({REPLY: 50.0, PAYMENT: 4.0, FYI: 1.0}, automated=True).category is PAYMENT


def test_a_longer_lead_makes_surer_and_never_certain():
    close, clear, huge = (verdict({REPLY: lead}).confidence for lead in (1.5, 4.0, 400.0))
    assert close < clear < huge <= 0.95


def test_a_close_call_is_not_called_sure():
    assert verdict({REPLY: 9.0, FYI: 9.5}).confidence <= 0.4
