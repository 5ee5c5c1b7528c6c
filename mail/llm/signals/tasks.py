"""Signs that something must be done: meetings, signatures, approvals, deadlines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mail.llm.base import Category, MailContext
from mail.llm.reading import Reading
from mail.llm.signals.signal import Signal
from mail.llm.vocabulary.concepts import Concept

_CALENDAR_NEWS: Final = frozenset({"REPLY", "CANCEL", "PUBLISH", "REFRESH", "DECLINECOUNTER"})
"""iTIP methods (RFC 5546) that tell something and ask for nothing."""


def task_signals(mail: MailContext, reading: Reading) -> Iterator[Signal]:
    """Yield what speaks for an action."""
    yield from _calendar(mail)
    yield from _meetings(reading)
    action = Category.ACTION_REQUIRED
    to_sign = reading.anywhere(Concept.SIGNATURE)
    if to_sign:
        yield Signal("signature", action, 4.0, "something is to be signed", to_sign)
    to_approve = reading.anywhere(Concept.APPROVAL)
    if to_approve:
        yield Signal("approval", action, 3.5, "something is to be approved", to_approve)
    to_confirm = reading.anywhere(Concept.CONFIRMATION)
    if to_confirm:
        yield Signal("confirmation", action, 2.5, "something is to be confirmed", to_confirm)
    deadline = reading.anywhere(Concept.DEADLINE)
    if deadline:
        yield Signal("deadline", action, 2.0, "there is a deadline", deadline)


def _calendar(mail: MailContext) -> Iterator[Signal]:
    if not any(part.mime_type == "text/calendar" for part in mail.attachments):
        return
    if mail.calendar_method in _CALENDAR_NEWS:
        yield Signal("calendar_news", Category.FYI, 5.0, "a calendar entry was answered or changed")
    else:
        yield Signal(
            "calendar_invitation", Category.ACTION_REQUIRED, 7.0, "it carries a calendar invitation"
        )


def _meetings(reading: Reading) -> Iterator[Signal]:
    action = Category.ACTION_REQUIRED
    proposal = reading.anywhere(Concept.PROPOSAL)
    if proposal:
        yield Signal("meeting_proposal", action, 3.0, "it proposes to meet or talk", proposal)
    meeting = reading.anywhere(Concept.MEETING)
    if not meeting:
        return
    weight = 1.5 if reading.in_subject(Concept.MEETING) else 0.75
    yield Signal("meeting", action, weight, "it is about a meeting", meeting)
    if reading.has_clock_time or reading.anywhere(Concept.DAY):
        yield Signal("meeting_time", action, 1.0, "it names a day or an hour")
