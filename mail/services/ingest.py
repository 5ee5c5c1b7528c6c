"""Fetches a message, parses it, stores it with its thread, and has the thread judged."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from html import unescape
from typing import Any

from mail.errors import MailboxWaits
from mail.gmail.answers import Message as GmailMessage
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailNotFound
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
from mail.services.accounts import own_addresses
from mail.services.events import record_event
from mail.services.mirror import cursor_of
from mail.services.queueing import enqueue_classify
from mail.services.threads import refresh_thread
from mail.text.cleaning import clean_line
from mail.text.parse import parse_message
from mail.text.parsed import Address, ParsedMail
from tenants.scope import firm_scope

MAX_SNIPPET_LENGTH = 500
# How often a message is read again because a sync moved on meanwhile.
MOST_READINGS = 5
BUSY_SECONDS = 1.0


def ingest_message(
    account: MailAccount, gmail: GmailClient, gmail_message_id: str
) -> dict[str, Any]:
    """Store one message, new or known, and return the job's result.

    Raises:
        MailboxWaits: syncs moved on again and again while it was read.
    """
    try:
        with firm_scope(account.firm_id):
            cursor = cursor_of(account)
        resource = gmail.get_message(gmail_message_id)
        if "DRAFT" in resource.get("labelIds", []):
            return {"skipped": True, "reason": "The message is a draft"}
        mail = parse_message(
            resource, fetch=lambda part: gmail.get_attachment(gmail_message_id, part)
        )
        for _ in range(MOST_READINGS):
            with firm_scope(account.firm_id):
                now = cursor_of(account, lock=True)
                if now == cursor:
                    return _store_and_judge(account, resource, mail)
            # A sync was faster: of a message only its labels may have changed.
            cursor = now
            labels = gmail.get_message(gmail_message_id, fmt="minimal").get("labelIds", [])
            resource["labelIds"] = labels
    except GmailNotFound:
        return {"skipped": True, "reason": "The message is no longer in Gmail"}
    raise MailboxWaits("The mailbox is being read: the message has to wait", seconds=BUSY_SECONDS)


def _store_and_judge(
    account: MailAccount, resource: GmailMessage, mail: ParsedMail
) -> dict[str, Any]:
    message, created = _store(account, resource, mail)
    if created:
        record_event(EventType.INGESTED, account, message=message)
    if _to_be_judged(message):
        enqueue_classify(message)
    return {"message_id": str(message.pk), "created": created}


def _to_be_judged(message: Message) -> bool:
    """Say whether the message changes what its thread wants: it is in the inbox, or an answer."""
    return message.outgoing or "INBOX" in message.labels


def _store(account: MailAccount, resource: GmailMessage, mail: ParsedMail) -> tuple[Message, bool]:
    """Store the message and its attachments, and bring its thread up to date."""
    thread = _locked_thread(account, resource["threadId"])
    message, created = Message.objects.update_or_create(
        account=account,
        gmail_message_id=resource["id"],
        defaults={"thread": thread} | _columns(account, resource, mail),
    )
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
            for attachment in mail.attachments
        ],
        # A message never changes: what is stored of it already is the same.
        ignore_conflicts=True,
    )
    refresh_thread(thread)
    return message, created


def _locked_thread(account: MailAccount, gmail_thread_id: str) -> MailThread:
    """Return the thread, locked: messages of one thread arrive side by side and count it."""
    thread = MailThread.objects.get_or_create(account=account, gmail_thread_id=gmail_thread_id)[0]
    locked: MailThread = MailThread.objects.select_for_update().get(pk=thread.pk)
    return locked


def _columns(account: MailAccount, resource: GmailMessage, mail: ParsedMail) -> dict[str, Any]:
    labels = resource.get("labelIds", [])
    return {
        "message_id": mail.message_id,
        "outgoing": "SENT" in labels or mail.sender.key in own_addresses(account),
        "sender_name": mail.sender.name,
        "sender_address": mail.sender.address[:MAX_ADDRESS_LENGTH],
        "to": _plain(mail.to),
        "cc": _plain(mail.cc),
        "subject": mail.subject,
        "snippet": clean_line(unescape(resource.get("snippet", "")), MAX_SNIPPET_LENGTH),
        "text": mail.text,
        "html": mail.html or "",
        "hidden_text": mail.hidden_text,
        "text_source": mail.text_source,
        "calendar_method": mail.calendar_method[:MAX_CALENDAR_METHOD_LENGTH],
        "labels": labels,
        "headers": [list(pair) for pair in mail.headers],
        "internal_date": datetime.fromtimestamp(int(resource["internalDate"]) / 1000, tz=UTC),
        "size": resource.get("sizeEstimate", 0),
    }


def _plain(addresses: tuple[Address, ...]) -> list[dict[str, str]]:
    return [asdict(address) for address in addresses]
