"""Signs that a message only tells something: robots, lists, newsletters, copies, thanks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mail.llm.base import Category, MailContext
from mail.llm.reading import Reading
from mail.llm.signals.signal import Signal
from mail.llm.vocabulary.concepts import Concept
from mail.rules.automated import AutomatedKind, AutomatedSignal

_AUTOMATED: Final = {
    AutomatedKind.DELIVERY_REPORT: (6.0, "it is a delivery report"),
    AutomatedKind.AUTO_SUBMITTED: (3.5, "its headers say that a program sent it"),
    AutomatedKind.AUTO_RESPONSE: (6.0, "it is an automatic answer"),
    AutomatedKind.NULL_RETURN_PATH: (4.0, "its sender takes no answers"),
    AutomatedKind.MAILING_LIST: (4.0, "it comes from a mailing list"),
    AutomatedKind.BULK: (3.5, "its headers mark it as bulk mail"),
    AutomatedKind.ROBOT_SENDER: (2.5, "the sender's address belongs to a program"),
}
_FEW_WORDS: Final = 12
_MANY_WORDS: Final = 800
_FIRST_PHRASE: Final = 2.5
_NEXT_PHRASE: Final = 0.75
_MOST_FOR_PHRASES: Final = 5.5
_ADDRESS_WORD: Final = re.compile(r"[a-z]+")
_MARKETING_ADDRESS: Final = frozenset(
    {
        "newsletter",
        "newsletters",
        "news",
        "marketing",
        "offers",
        "promo",
        "promotions",
        "mailing",
        "mailings",
        "digest",
        "campaign",
        "campaigns",
    }
)
_WORDINGS: Final = (
    (Concept.NO_ACTION, "no_action", 3.5, "it says that nothing is to be done"),
    (Concept.ABSENCE, "absence", 3.5, "it is a notice of absence"),
    (Concept.FOR_INFORMATION, "for_information", 2.5, "it is for information"),
    (Concept.THANKS, "thanks", 1.5, "it says thank you"),
)


def notice_signals(
    mail: MailContext, reading: Reading, automated: AutomatedSignal | None
) -> Iterator[Signal]:
    """Yield what speaks for mere information."""
    if automated is not None:
        weight, reason = _AUTOMATED[automated.kind]
        yield Signal(f"automated_{automated.kind}", Category.FYI, weight, reason)
    for concept, name, weight, reason in _WORDINGS:
        matches = reading.anywhere(concept)
        if matches:
            yield Signal(name, Category.FYI, weight, reason, matches)
    yield from _marketing(mail, reading)
    yield from _addressing(mail)
    if mail.attachments and reading.words <= _FEW_WORDS and not reading.questions:
        yield Signal("file_only", Category.FYI, 1.75, "it brings a file and hardly a word")
    if reading.words >= _MANY_WORDS:
        yield Signal("long_text", Category.FYI, 1.5, "it is long, as publications are")


def _marketing(mail: MailContext, reading: Reading) -> Iterator[Signal]:
    """Each further stock phrase of advertising makes the next less of a coincidence."""
    phrases = reading.anywhere(Concept.MARKETING)
    if phrases:
        weight = min(_FIRST_PHRASE + (len(phrases) - 1) * _NEXT_PHRASE, _MOST_FOR_PHRASES)
        reason = "it reads like a newsletter or an advertisement"
        yield Signal("marketing", Category.FYI, weight, reason, phrases)
    if _MARKETING_ADDRESS.intersection(_ADDRESS_WORD.findall(mail.sender.key)):
        reason = "the sender's address is one for mailings"
        yield Signal("marketing_sender", Category.FYI, 1.5, reason)


def _addressing(mail: MailContext) -> Iterator[Signal]:
    if not mail.own_addresses or {address.key for address in mail.to} & mail.own_addresses:
        return
    if {address.key for address in mail.cc} & mail.own_addresses:
        yield Signal("copy", Category.FYI, 2.0, "you only get a copy")
    elif mail.to:
        yield Signal("addressed_to_others", Category.FYI, 1.5, "it is addressed to others")
