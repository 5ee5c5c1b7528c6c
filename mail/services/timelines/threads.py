"""A thread's messages in order, and its outline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from mail.models import MailThread, Message


def newest_first(thread: MailThread) -> QuerySet[Message]:
    """Return the thread's messages, newest first; Gmail's id decides between equal times."""
    messages: QuerySet[Message] = Message.objects.filter(thread=thread)
    return messages.order_by("-internal_date", "-gmail_message_id")


def refresh_threads(threads: Collection[MailThread]) -> None:
    """Bring locked threads' outlines in line with their messages; one without any is deleted."""
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
