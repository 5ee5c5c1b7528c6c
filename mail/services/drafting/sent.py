"""Tells whether a draft that is gone was sent or discarded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailNotFound
from mail.models import Draft, Message
from tenants.scope import firm_scope

# Gmail's clock and the database's may differ by this much.
CLOCK_MARGIN = timedelta(minutes=5)


def sent_at(gmail: GmailClient, draft: Draft) -> datetime | None:
    """Return when something was last sent in the thread since the draft was written, None if never.

    Messages that were stored before the draft was are older, whatever the clocks say.
    """
    since = (draft.written_at or draft.created_at) - CLOCK_MARGIN
    try:
        messages = gmail.get_thread(draft.thread.gmail_thread_id, fmt="minimal")["messages"]
    except GmailNotFound:
        return None
    with firm_scope(draft.firm_id):
        stored = Message.objects.filter(thread_id=draft.thread_id, created_at__lte=draft.created_at)
        before = set(stored.values_list("gmail_message_id", flat=True))
    moments = [
        datetime.fromtimestamp(int(one["internalDate"]) / 1000, tz=UTC)
        for one in messages
        if "SENT" in one.get("labelIds", []) and one["id"] not in before
    ]
    return max((moment for moment in moments if moment >= since), default=None)
