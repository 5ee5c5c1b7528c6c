"""The classifier that needs no model and no network: documented signals, weighed in the open."""

from __future__ import annotations

from typing import Final

from mail.llm.base import DEFAULT_STYLE, UNKNOWN_LANGUAGE, Category, Classification, MailContext
from mail.llm.reading import Reading, read
from mail.llm.signals.correspondence import correspondence_signals
from mail.llm.signals.history import history_signals, settled
from mail.llm.signals.notices import notice_signals
from mail.llm.signals.payments import payment_signals
from mail.llm.signals.signal import Signal
from mail.llm.signals.tasks import task_signals
from mail.llm.verdict import Verdict, decide
from mail.llm.vocabulary.concepts import Concept
from mail.rules.automated import AutomatedSignal, automated_signal

INSTRUCTION_LIKE_TEXT: Final = "instruction_like_text"
"""The feature of a mail that gives orders to its classifier; they change nothing."""

_SHOWN_REASONS: Final = 4
_OWN_MESSAGE_CONFIDENCE: Final = 0.95
_OPENINGS: Final = {
    Category.NEEDS_RESPONSE: "Seems to expect a reply",
    Category.ACTION_REQUIRED: "Seems to ask for an action",
    Category.PAYMENT_REQUEST: "Seems to ask for a payment",
    Category.FYI: "Seems to be for information",
    Category.WAITING: "Waits for the others",
}


class OfflineClassifier:
    """Judges a message by its headers, its wording in five languages, and its sender's earlier mail."""

    source = "offline"

    def classify(self, mail: MailContext) -> Classification:
        """Judge one message."""
        automated = automated_signal(mail.sender, mail.headers)
        reading = read(mail)
        own = mail.user_wrote_last or mail.sender.key in mail.own_addresses
        if own:
            signals = [Signal("own_last_message", Category.WAITING, 1.0, "you wrote last")]
            verdict = Verdict(Category.WAITING, _OWN_MESSAGE_CONFIDENCE)
        else:
            signals = _signals(mail, reading, automated)
            verdict = settled(mail.history) or decide(signals, automated=automated is not None)
        features = [signal.name for signal in signals]
        if reading.ordered_about:
            features.append(INSTRUCTION_LIKE_TEXT)
        return Classification(
            category=verdict.category,
            confidence=verdict.confidence,
            rationale=_rationale(verdict.category, signals, ordered_about=reading.ordered_about),
            features=tuple(features),
            language=reading.language or UNKNOWN_LANGUAGE,
            style=_style(reading),
            automated=automated is not None,
        )


def _signals(
    mail: MailContext, reading: Reading, automated: AutomatedSignal | None
) -> list[Signal]:
    found = [
        *task_signals(mail, reading),
        *payment_signals(mail, reading),
        *correspondence_signals(mail, reading),
        *notice_signals(mail, reading, automated),
    ]
    found += history_signals(mail, found)
    return sorted(found, key=lambda signal: -signal.weight)


def _rationale(category: Category, signals: list[Signal], *, ordered_about: bool) -> str:
    reasons = [signal.sentence_part for signal in signals if signal.category is category]
    opening = _OPENINGS[category]
    text = f"{opening}: {'; '.join(reasons[:_SHOWN_REASONS])}." if reasons else f"{opening}."
    if not reasons:
        text += " No clear sign either way."
    against = next((signal for signal in signals if signal.category is not category), None)
    if against is not None:
        text += f" Against it: {against.sentence_part}."
    if ordered_about:
        text += " It also holds text that tells a classifier what to do; that was ignored."
    return f"{text} Judged by fixed rules, without a language model."


def _style(reading: Reading) -> str:
    """Return the tone of the mail, which a reply should match."""
    if reading.in_body(Concept.FORMAL):
        return "formal"
    return "informal" if reading.in_body(Concept.INFORMAL) else DEFAULT_STYLE
