"""Tells whether a draft that is gone was sent or discarded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mail.gmail.answers import Message as GmailMessage
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailNotFound
from mail.models import Draft, Message
from mail.rules.automated import is_auto_submitted
from mail.text.parts import raw_headers
from tenants.scope import firm_scope

# Gmail's clock and the database's may differ by this much.
CLOCK_MARGIN = timedelta(minutes=5)


def sent_at(gmail: GmailClient, draft: Draft) -> datetime | None:
    """Return when something was last sent in the thread since the draft was written, None if never.

    What a program sent by itself does not count: the owner has written nothing. Messages that were
    stored before the draft was are older, whatever the clocks say. The draft itself counts wherever
    it is, because Gmail may have put it into a thread of its own.
    """
    since = (draft.written_at or draft.created_at) - CLOCK_MARGIN
    try:
        messages = gmail.get_thread(draft.thread.gmail_thread_id, fmt="metadata")["messages"]
    except GmailNotFound:
        messages = []
    with firm_scope(draft.firm_id):
        stored = Message.objects.filter(thread_id=draft.thread_id, created_at__lte=draft.created_at)
        before = set(stored.values_list("gmail_message_id", flat=True))
    moments = [
        _moment(one)
        for one in messages
        if "SENT" in one.get("labelIds", [])
        and one["id"] not in before
        and not is_auto_submitted(raw_headers(one.get("payload", {})))
    ]
    last = max((moment for moment in moments if moment >= since), default=None)
    return last or _itself_sent_at(gmail, draft)


def _itself_sent_at(gmail: GmailClient, draft: Draft) -> datetime | None:
    query = f"rfc822msgid:{draft.rfc822_id.strip('<>')}"
    found = gmail.list_messages(query, label_id="SENT", everywhere=True).get("messages", [])
    moments = [_moment(gmail.get_message(one["id"], fmt="minimal")) for one in found]
    return max(moments, default=None)


def _moment(message: GmailMessage) -> datetime:
    return datetime.fromtimestamp(int(message["internalDate"]) / 1000, tz=UTC)
