"""Signs that a person wants an answer in words: questions and requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mail.llm.base import Category, MailContext
from mail.llm.reading import Reading
from mail.llm.signals.signal import Signal
from mail.llm.vocabulary.concepts import Concept

_FIRST_QUESTION: Final = 1.5
_NEXT_QUESTION: Final = 0.5
_COUNTED_QUESTIONS: Final = 3


def asks(reading: Reading) -> bool:
    """Say whether it asks for an answer, in so many words."""
    return bool(
        reading.questions
        or reading.anywhere(Concept.DIRECT_QUESTION)
        or reading.anywhere(Concept.REQUEST)
    )


def correspondence_signals(mail: MailContext, reading: Reading) -> Iterator[Signal]:
    """Yield what speaks for a reply."""
    answer = Category.NEEDS_RESPONSE
    if reading.questions:
        more = min(reading.questions, _COUNTED_QUESTIONS) - 1
        weight = _FIRST_QUESTION + more * _NEXT_QUESTION
        yield Signal("question", answer, weight, "it asks a question")
    asked = reading.anywhere(Concept.DIRECT_QUESTION)
    if asked:
        yield Signal("direct_question", answer, 1.5, "it asks you directly", asked)
    requested = reading.anywhere(Concept.REQUEST)
    if requested:
        yield Signal("request", answer, 2.0, "it makes a request", requested)
    if {address.key for address in mail.to} & mail.own_addresses:
        yield Signal("addressed_to_you", answer, 0.75, "it is addressed to you")
