"""What the offline classifier weighs: signals of payments, of tasks, for and against an answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import exp
from typing import Final

from mail.llm.base import Category, MailContext
from mail.llm.features import REASONS
from mail.llm.phrases import PhraseIndex, words_of
from mail.llm.prior import BIAS, WEIGHTS
from mail.llm.reading import Reading
from mail.llm.words import WORDS, Concept

_SHOWN_WORDS: Final = 2
_SHOWN_CHARS: Final = 40
_INVOICE = PhraseIndex({Concept.INVOICE: WORDS[Concept.INVOICE]})
_CALENDAR_NEWS: Final = frozenset({"REPLY", "CANCEL", "PUBLISH", "REFRESH", "DECLINECOUNTER"})
"""iTIP methods (RFC 5546) that tell something and ask for nothing."""
_LEAST: Final = 0.05
_MOST_ODDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Signal:
    """A reason to choose a category.

    ``name`` is stable and stored; ``reason`` is a clause for people; ``weight`` is positive, and
    about 3 is enough to decide alone. ``matches`` are the phrases seen, of which few are shown.
    """

    name: str
    category: Category
    weight: float
    reason: str
    matches: tuple[str, ...] = ()

    @property
    def sentence_part(self) -> str:
        """The reason with at most two short matched phrases."""
        shown = [f"“{match[:_SHOWN_CHARS]}”" for match in self.matches[:_SHOWN_WORDS]]
        return f"{self.reason} ({', '.join(shown)})" if shown else self.reason


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


def task_signals(mail: MailContext, reading: Reading) -> Iterator[Signal]:
    """Yield signs that an action is needed."""
    yield from _calendar(mail)
    action = Category.ACTION_REQUIRED
    titled = reading.in_subject.get(Concept.TASK, ())
    task = reading.anywhere(Concept.TASK)
    if task:
        yield Signal("task", action, 2.0 if titled else 1.5, "something is to be done", task)
    if not task:
        return
    if Concept.TASK in reading.in_asking:
        yield Signal("task_asked", action, 1.5, "it asks for that")
    date = reading.anywhere(Concept.DATE)
    if date or reading.has_clock_time:
        yield Signal("date", action, 1.0, "it names a day or an hour", date)


def _calendar(mail: MailContext) -> Iterator[Signal]:
    if not any(part.mime_type == "text/calendar" for part in mail.attachments):
        return
    if mail.calendar_method in _CALENDAR_NEWS:
        yield Signal("calendar_news", Category.FYI, 5.0, "a calendar entry was answered or changed")
    else:
        yield Signal(
            "calendar_invitation", Category.ACTION_REQUIRED, 7.0, "it carries a calendar invitation"
        )


@dataclass(frozen=True, slots=True)
class Prior:
    """How much each feature raises or lowers the odds of an answer, in log odds."""

    bias: float
    weights: Mapping[str, float]

    def odds(self, facts: Mapping[str, float]) -> float:
        """Return the log odds of an answer."""
        return self.bias + sum(self.weights[name] * facts[name] for name in self.weights)

    def signals(self, facts: Mapping[str, float]) -> Iterator[Signal]:
        """Yield a signal for each fact that raises or lowers the odds noticeably."""
        for name, weight in self.weights.items():
            pull = weight * facts[name]
            if abs(pull) >= _LEAST:
                category = Category.NEEDS_RESPONSE if pull > 0 else Category.FYI
                yield Signal(name, category, round(abs(pull), 2), REASONS[name])


TRAINED: Final = Prior(BIAS, WEIGHTS)


def chance(odds: float) -> float:
    """Return the probability that log odds stand for."""
    return 1 / (1 + exp(-max(-_MOST_ODDS, min(_MOST_ODDS, odds))))
