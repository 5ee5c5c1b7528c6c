"""Signs that something must be done: invitations, and words of signing, approving and meeting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mail.llm.base import Category, MailContext
from mail.llm.reading import Reading
from mail.llm.signals.signal import Signal
from mail.llm.words import Concept

_CALENDAR_NEWS: Final = frozenset({"REPLY", "CANCEL", "PUBLISH", "REFRESH", "DECLINECOUNTER"})
"""iTIP methods (RFC 5546) that tell something and ask for nothing."""


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
