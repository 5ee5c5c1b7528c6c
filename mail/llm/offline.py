"""The classifier that needs no model and no network: it weighs headers and form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import log
from typing import Final

from mail.llm.base import (
    DEFAULT_STYLE,
    UNKNOWN_LANGUAGE,
    Category,
    Classification,
    MailContext,
    SenderHistory,
)
from mail.llm.features import features
from mail.llm.reading import Reading, read
from mail.llm.signals import TRAINED, Prior, Signal, chance, payment_signals, task_signals
from mail.llm.verdict import Verdict, decide
from mail.rules.automated import AutomatedKind, AutomatedSignal, automated_signal

_SHOWN_REASONS: Final = 4
_OWN_MESSAGE_CONFIDENCE: Final = 0.95
_AUTOMATED_WEIGHT: Final = 6.0
_WISHED: Final = (Category.ACTION_REQUIRED, Category.PAYMENT_REQUEST)
_OPENINGS: Final = {
    Category.NEEDS_RESPONSE: "Seems to expect a reply",
    Category.ACTION_REQUIRED: "Seems to ask for an action",
    Category.PAYMENT_REQUEST: "Seems to ask for a payment",
    Category.FYI: "Seems to be for information",
    Category.WAITING: "Waits for the others",
}
_AUTOMATED: Final = {
    AutomatedKind.DELIVERY_REPORT: "it is a delivery report",
    AutomatedKind.AUTO_SUBMITTED: "its headers say that a program sent it",
    AutomatedKind.AUTO_RESPONSE: "it is an automatic answer",
    AutomatedKind.NULL_RETURN_PATH: "its sender takes no answers",
    AutomatedKind.MAILING_LIST: "it comes from a mailing list",
    AutomatedKind.BULK: "its headers mark it as bulk mail",
    AutomatedKind.ROBOT_SENDER: "the sender's address belongs to a program",
}
_SAID_ONCE: Final = 2.0
# The counts start as if one of three earlier mails had been answered: so that one mail says little,
# several say more, and none is certain.
_PRIOR_ANSWERED, _PRIOR_UNANSWERED = 1.0, 2.0
_SCALE: Final = 1.5
_MOST: Final = 2.5
_LEAST: Final = 0.25
_AGREEING: Final = 2


class OfflineClassifier:
    """Judges a message by its headers, its form, what it asks, and its sender's earlier mail."""

    source = "offline"

    def __init__(self, prior: Prior = TRAINED) -> None:
        self._prior = prior

    def classify(self, mail: MailContext) -> Classification:
        """Judge one message."""
        automated = automated_signal(mail.sender, mail.headers)
        reading = read(mail)
        if mail.user_wrote_last or mail.is_own:
            signals = [Signal("own_last_message", Category.WAITING, 1.0, "you wrote last")]
            verdict = Verdict(Category.WAITING, _OWN_MESSAGE_CONFIDENCE)
        else:
            signals, verdict = _judge(mail, reading, automated, self._prior)
        return Classification(
            category=verdict.category,
            confidence=verdict.confidence,
            rationale=_rationale(verdict, signals),
            features=tuple(signal.name for signal in signals),
            language=reading.language or UNKNOWN_LANGUAGE,
            style=DEFAULT_STYLE,
            automated=automated is not None,
            labelled=verdict.labelled,
        )


def _judge(
    mail: MailContext, reading: Reading, automated: AutomatedSignal | None, prior: Prior
) -> tuple[list[Signal], Verdict]:
    facts = features(mail, reading)
    wishes = _wishes(mail, reading, facts)
    history = list(history_signals(mail, wishes))
    wishes += [one for one in history if one.category in _WISHED]
    found = [*wishes, *(one for one in history if one not in wishes), *prior.signals(facts)]
    if automated is not None:
        reason = _AUTOMATED[automated.kind]
        name = f"automated_{automated.kind}"
        found.append(Signal(name, Category.FYI, _AUTOMATED_WEIGHT, reason))
    answer = chance(prior.odds(facts) + sum(_pull(one) for one in history))
    verdict = settled(mail.history) or decide(wishes, answer, automated=automated is not None)
    return sorted(found, key=lambda signal: -signal.weight), verdict


def _wishes(mail: MailContext, reading: Reading, facts: Mapping[str, float]) -> list[Signal]:
    """Return the signs of tasks and payments; mail to many people asks nobody for either."""
    if facts["unsubscribe"] or not facts["addressed"]:
        return [one for one in task_signals(mail, reading) if one.name.startswith("calendar_")]
    return [*task_signals(mail, reading), *payment_signals(mail, reading)]


def _pull(signal: Signal) -> float:
    """Return what a sign of the sender's history adds to the log odds of an answer."""
    if signal.category is Category.NEEDS_RESPONSE:
        return signal.weight
    return -signal.weight if signal.category is Category.FYI else 0.0


def _rationale(verdict: Verdict, signals: list[Signal]) -> str:
    category = verdict.category
    reasons = [signal.sentence_part for signal in signals if signal.category is category]
    opening = _OPENINGS[category]
    text = f"{opening}: {'; '.join(reasons[:_SHOWN_REASONS])}." if reasons else f"{opening}."
    if not reasons:
        text += " No clear sign either way."
    against = next((signal for signal in signals if signal.category is not category), None)
    if against is not None:
        text += f" Against it: {against.sentence_part}."
    if not verdict.labelled:
        text += " Not sure enough for a label."
    return f"{text} Judged by fixed rules, without a language model."


def settled(history: SenderHistory) -> Verdict | None:
    """Return the category that the owner gave both of the sender's last threads, or None.

    Its confidence follows the rule of succession: two of two make 0.75, four of five 0.71.
    """
    latest = history.said[-_AGREEING:]
    if len(latest) < _AGREEING or len(set(latest)) > 1:
        return None
    agreeing = Counter(history.said)[latest[0]]
    return Verdict(latest[0], round((agreeing + 1) / (len(history.said) + 2), 2))


def history_signals(mail: MailContext, others: Sequence[Signal]) -> Iterator[Signal]:
    """Yield what the person's corrections and answers say about the sender.

    That the owner leaves a sender unanswered makes an answer less likely, but not the tasks and
    payments that the `others` found.
    """
    history = mail.history
    if history.said:
        reason = "you said so of this sender's mail before"
        yield Signal("said_before", history.said[-1], _SAID_ONCE, reason)
    weight = answer_weight(history)
    if weight >= _LEAST:
        reason = f"you answered {history.answered} of this sender's threads"
        yield Signal("answered_before", Category.NEEDS_RESPONSE, weight, reason)
    elif -weight >= _LEAST and not any(one.category in _WISHED for one in others):
        reason = "you left this sender's threads without an answer"
        yield Signal("left_unanswered", Category.FYI, -weight, reason)


def answer_weight(history: SenderHistory) -> float:
    """Return how much likelier an answer is than for an unknown sender, in scaled log odds."""
    odds = (history.answered + _PRIOR_ANSWERED) / (history.unanswered + _PRIOR_UNANSWERED)
    weight = _SCALE * log(odds * _PRIOR_UNANSWERED / _PRIOR_ANSWERED)
    return max(-_MOST, min(_MOST, round(weight, 2)))
