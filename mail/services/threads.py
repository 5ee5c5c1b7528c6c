"""A thread's messages in order."""

from __future__ import annotations

from django.db.models import QuerySet

from mail.models import MailThread, Message


def newest_first(thread: MailThread) -> QuerySet[Message]:
    """Return the thread's messages, newest first; Gmail's id decides between equal times."""
    messages: QuerySet[Message] = Message.objects.filter(thread=thread)
    return messages.order_by("-internal_date", "-gmail_message_id")
