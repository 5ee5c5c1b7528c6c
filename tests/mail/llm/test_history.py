"""What the person did with a sender's earlier mail pushes the verdict, and by how much."""

from __future__ import annotations

from typing import Any

import pytest

from mail.llm.base import Category, Classification, SenderHistory
from mail.llm.offline import OfflineClassifier, answer_weight, settled
from mail.llm.signals import Prior
from tests.mail.llm.letters import letter

pytestmark = pytest.mark.req("M-12")

REPLY, ACTION, PAYMENT, FYI, _ = Category
NEWS = "For your information: we are moving."
PLAIN = "Here are the photographs."
UNDECIDED = OfflineClassifier(Prior(-0.4, {}))
INVOICE = "Please find attached our invoice. Amount due: £1,284.00."
ROBOT = {"Auto-Submitted": "auto-generated"}


def judged(text: str, history: SenderHistory, **more: Any) -> Classification:
    return OfflineClassifier().classify(letter(text, "Subject", history=history, **more))


def leaning(history: SenderHistory) -> Classification:
    """Judge a mail about which only the history says anything."""
    return UNDECIDED.classify(letter(PLAIN, "Subject", history=history))


@pytest.mark.parametrize("said", [REPLY, ACTION, PAYMENT, FYI])
@pytest.mark.parametrize("text", [NEWS, PLAIN, INVOICE])
def test_what_the_person_said_twice_holds(said: Category, text: str) -> None:
    verdict = judged(text, SenderHistory(said=(said, said)))
    assert (verdict.category, verdict.confidence) == (said, 0.75)
    assert "you said so of this sender's mail before" in verdict.rationale


def test_the_more_they_agree_the_surer_it_is_and_never_certain() -> None:
    sure = [settled(SenderHistory(said=(FYI,) * count)).confidence for count in (2, 5, 50)]
    assert sure == sorted(sure)
    assert sure[-1] < 1
    mixed = settled(SenderHistory(said=(ACTION, FYI, FYI)))
    assert (mixed.category, mixed.confidence) == (FYI, 0.6)


@pytest.mark.parametrize("said", [(), (FYI,), (FYI, ACTION), (FYI, FYI, ACTION)])
def test_one_word_or_two_that_differ_settle_nothing(said: tuple[Category, ...]) -> None:
    assert settled(SenderHistory(said=said)) is None
    assert judged(INVOICE, SenderHistory(said=said)).category is not FYI


def test_one_word_decides_where_the_mail_says_little() -> None:
    assert leaning(SenderHistory()).labelled is False
    assert leaning(SenderHistory(said=(REPLY,))).category is REPLY
    told = leaning(SenderHistory(said=(FYI,)))
    assert (told.category, told.labelled) == (FYI, True)


def test_answers_make_an_answer_likelier_and_none_less_likely() -> None:
    weights = [
        answer_weight(SenderHistory(answered=yes, unanswered=no))
        for yes, no in ((0, 9), (0, 3), (0, 0), (1, 0), (3, 0), (9, 0))
    ]
    assert weights == sorted(set(weights))
    assert weights[2] == 0
    assert max(map(abs, weights)) <= 2.5
    assert judged(NEWS, SenderHistory()).category is FYI
    known = leaning(SenderHistory(answered=9))
    assert (known.category, known.features[0]) == (REPLY, "answered_before")
    left = leaning(SenderHistory(unanswered=9))
    assert (left.category, left.labelled) == (FYI, True)


def test_what_is_to_be_paid_stays_so_whoever_was_never_answered() -> None:
    assert judged(INVOICE, SenderHistory(unanswered=50)).category is PAYMENT
    assert judged(INVOICE, SenderHistory(answered=50)).category is PAYMENT


def test_a_question_of_somebody_never_answered_is_still_seen_but_not_surely() -> None:
    question = "Could you tell me how long the delivery takes?"
    verdict = judged(question, SenderHistory(unanswered=20))
    assert judged(question, SenderHistory()).category is REPLY
    assert not (verdict.category is FYI and verdict.confidence > 0.9)
    assert "left_unanswered" in verdict.features


def test_machines_get_no_answer_for_answers_and_no_draft_whatever_was_said() -> None:
    assert judged(PLAIN, SenderHistory(answered=50), headers=ROBOT).category is FYI
    said = judged(PLAIN, SenderHistory(said=(REPLY, REPLY)), headers=ROBOT)
    # The category follows the person; `automated`, which drafts look at, stays true.
    assert (said.category, said.automated) == (REPLY, True)
