"""Signs that money is asked for, or that it has already arrived."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mail.llm.base import Category, MailContext
from mail.llm.phrases import fold
from mail.llm.reading import Reading
from mail.llm.signals.signal import Signal
from mail.llm.vocabulary.concepts import Concept

_INVOICE_FILE: Final = re.compile(r"invoice|faktur|rechnung|factur|proforma")


def payment_signals(mail: MailContext, reading: Reading) -> Iterator[Signal]:
    """Yield what speaks for a payment request, or for the news that something was paid."""
    overdue = reading.anywhere(Concept.OVERDUE)
    paid = reading.anywhere(Concept.PAID)
    if paid and not overdue:
        yield Signal("paid", Category.FYI, 5.0, "it says that something was paid", paid)
        return
    demands = list(_demands(mail, reading))
    if overdue:
        demands.append(_signal("overdue", 3.0, "a payment is said to be missing", overdue))
    yield from demands
    if demands and reading.has_amount:
        yield _signal("amount", 1.0, "it names an amount")
    bank = reading.anywhere(Concept.BANK_DETAILS)
    if demands and bank:
        yield _signal("bank_details", 1.0, "it gives bank details", bank)


def _demands(mail: MailContext, reading: Reading) -> Iterator[Signal]:
    titled = reading.in_subject(Concept.INVOICE)
    mentioned = reading.in_body(Concept.INVOICE)
    if titled:
        yield _signal("invoice_subject", 1.5, "the subject names an invoice", titled)
    elif mentioned:
        yield _signal("invoice", 0.5, "it mentions an invoice", mentioned)
    sent = reading.anywhere(Concept.INVOICE_SENT)
    if sent:
        yield _signal("invoice_sent", 2.0, "it brings an invoice", sent)
    if any(_INVOICE_FILE.search(fold(part.filename)) for part in mail.attachments):
        yield _signal("invoice_attached", 2.0, "a file is named like an invoice")
    due = reading.anywhere(Concept.DUE)
    if due:
        yield _signal("due", 2.0, "it asks for payment", due)


def _signal(name: str, weight: float, reason: str, matches: tuple[str, ...] = ()) -> Signal:
    return Signal(name, Category.PAYMENT_REQUEST, weight, reason, matches)
