"""Reads and updates threads: their messages in order, and their outlines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet, TextField
from django.db.models.functions import Cast

from mail.models import MailThread, Message

# Gmail's labels of messages that the person, or Gmail, threw away.
DISCARDING_LABELS: Final = frozenset({"TRASH", "SPAM"})


def newest_first(thread: MailThread) -> QuerySet[Message]:
    """Return the thread's messages, newest first; Gmail's id decides between equal times."""
    messages: QuerySet[Message] = Message.objects.filter(thread=thread)
    return messages.order_by("-internal_date", "-gmail_message_id")


def labelled_messages(thread: MailThread) -> list[Message]:
    """Return the thread's messages, newest first, with only their labels loaded."""
    return list(newest_first(thread).only("firm", "account", "thread", "labels"))


def is_discarded(message: Message) -> bool:
    """Say whether the message is in the trash or among spam."""
    return not DISCARDING_LABELS.isdisjoint(message.labels)


def newest_to_answer(newest_first: Iterable[Message]) -> Message | None:
    """Return the newest message from somebody else that is neither in the trash nor among spam."""
    return next((one for one in newest_first if not (one.outgoing or is_discarded(one))), None)


def without_discarded(threads: QuerySet[MailThread]) -> QuerySet[MailThread]:
    """Leave out threads whose messages are all in the trash or in spam.

    Must run in the firm's scope.
    """
    messages = Message.objects.filter(thread=OuterRef("pk")).annotate(
        written_labels=Cast("labels", TextField())
    )
    # Searched as text, because the databases differ in how they search lists in JSON.
    discarded = Q()
    for label in sorted(DISCARDING_LABELS):
        discarded |= Q(written_labels__contains=f'"{label}"')
    found: QuerySet[MailThread] = threads.exclude(
        Exists(messages.filter(discarded)), ~Exists(messages.exclude(discarded))
    )
    return found


def refresh_threads(threads: Collection[MailThread]) -> None:
    """Update locked threads' outlines from their messages; a thread without any is deleted."""
    outlines = Message.objects.filter(thread__in=threads).values_list(
        "thread_id", "internal_date", "gmail_message_id", "subject"
    )
    by_thread: dict[UUID, list[tuple[datetime, str, str]]] = defaultdict(list)
    for thread_id, *outline in outlines:
        by_thread[thread_id].append((outline[0], outline[1], outline[2]))
    kept = [thread for thread in threads if thread.pk in by_thread]
    for thread in kept:
        thread.last_message_at, _, thread.subject = max(by_thread[thread.pk])
        thread.message_count = len(by_thread[thread.pk])
    MailThread.objects.bulk_update(kept, ["subject", "last_message_at", "message_count"])
    empty = [thread.pk for thread in threads if thread.pk not in by_thread]
    if empty:
        MailThread.objects.filter(pk__in=empty).delete()
