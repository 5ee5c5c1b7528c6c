"""A thread's messages in order, and its outline."""

from __future__ import annotations

from django.db.models import QuerySet

from mail.models import MailThread, Message


def newest_first(thread: MailThread) -> QuerySet[Message]:
    """Return the thread's messages, newest first; Gmail's id decides between equal times."""
    messages: QuerySet[Message] = Message.objects.filter(thread=thread)
    return messages.order_by("-internal_date", "-gmail_message_id")


def refresh_thread(thread: MailThread) -> None:
    """Bring a locked thread's outline in line with its messages; one without any is deleted."""
    messages = newest_first(thread)
    newest = messages.only("subject", "internal_date").first()
    if newest is None:
        thread.delete()
        return
    thread.subject = newest.subject
    thread.last_message_at = newest.internal_date
    thread.message_count = messages.count()
    thread.save(update_fields=["subject", "last_message_at", "message_count"])
