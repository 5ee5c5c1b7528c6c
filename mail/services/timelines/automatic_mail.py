"""Tells apart what a program sent for the owner, such as an automatic reply.

It answers nobody: whoever asked still waits for the owner.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile
from uuid import UUID

from mail.models import MailThread, Message
from mail.rules.automated import is_auto_submitted
from mail.services.sending.compose import stored_headers


def automatic_ids(messages: Iterable[Message]) -> frozenset[UUID]:
    """Return which of the messages a program sent for the owner. Must run in the firm's scope."""
    sent = [one.pk for one in messages if one.outgoing]
    rows = Message.objects.filter(pk__in=sent).only("firm", "headers") if sent else []
    return frozenset(row.pk for row in rows if is_auto_submitted(stored_headers(row)))


def without(messages: Iterable[Message], automatic: Collection[UUID]) -> list[Message]:
    """Return the messages in their order, without the automatic ones."""
    return [one for one in messages if one.pk not in automatic]


def has_news(
    thread: MailThread, newest_first: Sequence[Message], automatic: Collection[UUID]
) -> bool:
    """Say whether a message is newer than the thread's last verdict saw, and not automatic."""
    unseen = takewhile(lambda one: one.pk != thread.classified_upto_id, newest_first)
    return bool(without(unseen, automatic))
