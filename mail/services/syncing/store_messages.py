"""Stores parsed messages with their attachments and threads, many in a few statements."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

from django.utils import timezone

from jobs.engine.clock import database_now
from mail.gmail.answers import Message as GmailMessage
from mail.models import (
    MAX_ADDRESS_LENGTH,
    MAX_CALENDAR_METHOD_LENGTH,
    MAX_MIME_TYPE_LENGTH,
    MAX_PART_ID_LENGTH,
    Attachment,
    EventType,
    MailAccount,
    MailThread,
    Message,
)
from mail.services.documents.documents import request_documents
from mail.services.documents.search import index_messages
from mail.services.mailboxes.accounts import own_addresses
from mail.services.reminders.follow_ups import withdraw_answered
from mail.services.timelines.events import record_events
from mail.services.timelines.threads import refresh_threads
from mail.text.authentication import is_forged
from mail.text.cleaning import clean_line
from mail.text.parsed import ParsedMail, as_stored

MAX_SNIPPET_LENGTH = 500
# By how much Gmail's clock may be ahead of ours.
AHEAD = timedelta(minutes=10)
_KNOWN = ("gmail_message_id", "pk", "internal_date")


@dataclass(frozen=True)
class Fetched:
    """A message as Gmail returned it, and as it was parsed."""

    resource: GmailMessage
    mail: ParsedMail


@dataclass(frozen=True)
class StoredMessage:
    """A stored message, and whether it is new."""

    message: Message
    created: bool

    @property
    def to_be_judged(self) -> bool:
        """Whether it can change its thread's verdict: it is in the inbox, or the owner's answer."""
        return self.message.outgoing or "INBOX" in self.message.labels


def store_messages(account: MailAccount, fetched: Sequence[Fetched]) -> list[StoredMessage]:
    """Store messages, new or known, once each, and update their threads.

    Must run in the firm's scope, with the account locked.
    """
    threads = _locked_threads(account, {one.resource["threadId"] for one in fetched})
    ids = [one.resource["id"] for one in fetched]
    known = Message.objects.filter(account=account, gmail_message_id__in=ids)
    keys = {gmail_id: (pk, date) for gmail_id, pk, date in known.values_list(*_KNOWN)}
    messages = []
    for one in fetched:
        message = Message(
            account=account,
            thread=threads[one.resource["threadId"]],
            gmail_message_id=one.resource["id"],
            **_columns(account, one.resource, one.mail),
        )
        if message.gmail_message_id in keys:
            message.pk, stored_date = keys[message.gmail_message_id]
            # Otherwise a message dated ahead would become its thread's newest at each ingest.
            message.internal_date = min(message.internal_date, stored_date)
        messages.append(message)
    new = [message for message in messages if message.gmail_message_id not in keys]
    Message.objects.bulk_create(new)
    _renew([message for message in messages if message.gmail_message_id in keys])
    _store_attachments(messages, fetched)
    request_documents(account, new)
    index_messages(messages)
    refresh_threads(list(threads.values()))
    if new:
        withdraw_answered(account, [thread.pk for thread in threads.values()])
    record_events(EventType.INGESTED, account, [(message, {}) for message in new])
    return [StoredMessage(one, one.gmail_message_id not in keys) for one in messages]


def _locked_threads(account: MailAccount, gmail_thread_ids: Collection[str]) -> dict[str, Any]:
    """Return the threads by Gmail's id, locked, because ingests count them; create missing ones."""
    rows = MailThread.objects.filter(account=account, gmail_thread_id__in=gmail_thread_ids)
    locked = rows.select_for_update(no_key=True).order_by("pk")
    found = {thread.gmail_thread_id: thread for thread in locked}
    missing = sorted(set(gmail_thread_ids) - found.keys())
    if missing:
        MailThread.objects.bulk_create(
            [MailThread(account=account, gmail_thread_id=one) for one in missing],
            ignore_conflicts=True,
        )
        found = {thread.gmail_thread_id: thread for thread in locked.all()}
    return found


def _renew(messages: Collection[Message]) -> None:
    """Update known messages: only labels change in Gmail, but our parsing may have changed, too."""
    fixed = {"id", "firm", "account", "gmail_message_id", "created_at"}
    names = [field.name for field in Message._meta.concrete_fields if field.name not in fixed]
    Message.objects.bulk_update(messages, names)


def _store_attachments(messages: Sequence[Message], fetched: Sequence[Fetched]) -> None:
    Attachment.objects.bulk_create(
        [
            Attachment(
                message=message,
                part_id=attachment.part_id[:MAX_PART_ID_LENGTH],
                filename=attachment.filename,
                mime_type=attachment.mime_type[:MAX_MIME_TYPE_LENGTH],
                size=attachment.size,
                gmail_attachment_id=attachment.attachment_id,
                content_id=attachment.content_id,
                inline=attachment.inline,
            )
            for message, one in zip(messages, fetched, strict=True)
            for attachment in one.mail.attachments
        ],
        # A message never changes, so attachments that are stored already are the same.
        ignore_conflicts=True,
    )


def _columns(account: MailAccount, resource: GmailMessage, mail: ParsedMail) -> dict[str, Any]:
    labels = resource.get("labelIds", [])
    return {
        "message_id": mail.message_id,
        "outgoing": "SENT" in labels or _is_own(account, mail),
        "sender_name": mail.sender.name,
        "sender_address": mail.sender.address[:MAX_ADDRESS_LENGTH],
        "to": as_stored(mail.to),
        "cc": as_stored(mail.cc),
        "subject": mail.subject,
        "snippet": clean_line(unescape(resource.get("snippet", "")), MAX_SNIPPET_LENGTH),
        "text": mail.text,
        "html": mail.html or "",
        "hidden_text": mail.hidden_text,
        "text_source": mail.text_source,
        "calendar_method": mail.calendar_method[:MAX_CALENDAR_METHOD_LENGTH],
        "labels": labels,
        "headers": [list(pair) for pair in mail.headers],
        "internal_date": _received_at(resource),
        "size": resource.get("sizeEstimate", 0),
    }


def _received_at(resource: GmailMessage) -> datetime:
    """Return when Gmail received the message; now, if that is in the future.

    An import may take the date from the message's header. A message dated ahead would stay the
    newest of its thread, and nothing that comes later would be judged.
    """
    received_at = datetime.fromtimestamp(int(resource["internalDate"]) / 1000, tz=UTC)
    is_ahead = received_at > timezone.now() + AHEAD
    return min(received_at, database_now()) if is_ahead else received_at


def _is_own(account: MailAccount, mail: ParsedMail) -> bool:
    """Say whether the owner wrote it in another program; anybody can forge their address."""
    # A form's mail comes from its owner's address, and Reply-To names the person to be answered.
    writers = {mail.sender.key, *(one.key for one in mail.reply_to)}
    return writers <= own_addresses(account) and not is_forged(mail.headers, mail.sender)
