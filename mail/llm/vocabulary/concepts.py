"""What the offline classifier listens for, whatever the language."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Concept(StrEnum):
    """A meaning that phrases of several languages share."""

    DIRECT_QUESTION = "direct_question"
    REQUEST = "request"
    DEADLINE = "deadline"
    MEETING = "meeting"
    PROPOSAL = "proposal"
    DAY = "day"
    SIGNATURE = "signature"
    APPROVAL = "approval"
    CONFIRMATION = "confirmation"
    INVOICE = "invoice"
    INVOICE_SENT = "invoice_sent"
    DUE = "due"
    OVERDUE = "overdue"
    BANK_DETAILS = "bank_details"
    PAID = "paid"
    NO_ACTION = "no_action"
    FOR_INFORMATION = "for_information"
    MARKETING = "marketing"
    ABSENCE = "absence"
    THANKS = "thanks"
    ORDER_TO_CLASSIFIER = "order_to_classifier"
    FORMAL = "formal"
    INFORMAL = "informal"


Phrases = Mapping[Concept, tuple[str, ...]]
"""Phrases of one language. A word ending in ``*`` stands for every word that starts so; case,
accents and punctuation do not count."""
