"""Signs in what the person did with the sender's earlier mail: what they said of it, and answers.

The counts start from a prior, so that one mail says little, several say more, and none is certain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import log
from typing import Final

from mail.llm.base import Category, MailContext, SenderHistory
from mail.llm.signals import Signal
from mail.llm.verdict import Verdict

_SAID_ONCE: Final = 2.0
# The counts start as if one of three earlier mails had been answered.
_PRIOR_ANSWERED, _PRIOR_UNANSWERED = 1.0, 2.0
_SCALE: Final = 1.5
_MOST: Final = 2.5
_LEAST: Final = 0.25
_AGREEING: Final = 2
_WISHES: Final = (Category.ACTION_REQUIRED, Category.PAYMENT_REQUEST)


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
    elif -weight >= _LEAST and not any(one.category in _WISHES for one in others):
        reason = "you left this sender's threads without an answer"
        yield Signal("left_unanswered", Category.FYI, -weight, reason)


def answer_weight(history: SenderHistory) -> float:
    """Return how much likelier an answer is than for an unknown sender, in scaled log odds."""
    odds = (history.answered + _PRIOR_ANSWERED) / (history.unanswered + _PRIOR_UNANSWERED)
    weight = _SCALE * log(odds * _PRIOR_UNANSWERED / _PRIOR_ANSWERED)
    return max(-_MOST, min(_MOST, round(weight, 2)))
