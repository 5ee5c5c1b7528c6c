"""Signs that money is asked for, or that it has already arrived."""

from __future__ import annotations

from collections.abc import Iterator

from mail.llm.base import Category, MailContext
from mail.llm.phrases import PhraseIndex, words_of
from mail.llm.reading import Reading
from mail.llm.signals.signal import Signal
from mail.llm.words import WORDS, Concept

_INVOICE = PhraseIndex({Concept.INVOICE: WORDS[Concept.INVOICE]})


def payment_signals(mail: MailContext, reading: Reading) -> Iterator[Signal]:
    """Yield signs of a payment request, or of the news that something was paid."""
    due, paid = reading.anywhere(Concept.DUE), reading.anywhere(Concept.PAID)
    titled = reading.in_subject.get(Concept.INVOICE, ())
    mentioned = reading.in_body.get(Concept.INVOICE, ())
    attached = any(_INVOICE.find(words_of(part.filename)) for part in mail.attachments)
    if not titled and not mentioned and not attached:
        return
    if paid and not due:
        yield Signal("paid", Category.FYI, 5.0, "it says that something was paid", paid)
        return
    if titled:
        yield _signal("invoice_subject", 1.5, "the subject names an invoice", titled)
    elif mentioned:
        yield _signal("invoice", 0.5, "it mentions an invoice", mentioned)
    if attached:
        yield _signal("invoice_attached", 2.0, "a file is named like an invoice")
    if due:
        yield _signal("due", 2.0, "it asks for payment", due)
    if reading.has_amount:
        yield _signal("amount", 1.5, "it names an amount")


def _signal(name: str, weight: float, reason: str, matches: tuple[str, ...] = ()) -> Signal:
    return Signal(name, Category.PAYMENT_REQUEST, weight, reason, matches)
