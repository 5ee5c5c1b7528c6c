"""Stores outbound messages, and releases them to be sent.

approved_pending → queued → sending → sent | failed | unknown; approved_pending → rejected;
approved_pending, queued, sending → canceled. An unknown message waits for a person.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from datetime import timedelta
from uuid import UUID

from django.db import connection
from django.utils import timezone

from jobs.errors import Fault
from jobs.queue import enqueue
from jobs.states import Priority
from mail.errors import OutboundInvalid
from mail.gmail.mime import OutgoingMail, faults_of
from mail.models import Action, MailAccount, Message, OutboundKind, OutboundMessage, OutboundStatus
from mail.services.queueing import thread_lock
from mail.services.sending.compose import (
    Addresses,
    Content,
    IncludeOriginal,
    forward_content,
    reply_content,
    sender_of,
    signed,
)
from mail.services.sending.loop_guard import check_automatic
from mail.text.addresses import untagged
from mail.text.parsed import Address, as_stored, from_stored

# Gmail takes 25 MB; encoded for mail, attachments grow by a third.
MAX_ATTACHMENT_BYTES = 18 * 1024 * 1024
_HASHED = (
    "kind", "automatic", "sender", "to", "cc", "bcc", "subject", "text", "html", "attachments",
    "in_reply_to", "references", "gmail_thread_id", "rfc822_id",
)  # fmt: skip
_PARTS = (
    "SELECT (SELECT system_identifier FROM pg_control_system()),"
    " (SELECT oid FROM pg_database WHERE datname = current_database()),"
    " 'mail_outboundmessage'::regclass::oid,"
    # The timeline is the first eight digits of the name of a file of the write-ahead log.
    " left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)"
)


def request_reply(
    message: Message,
    *,
    text: str,
    html: str = "",
    action: Action | None = None,
    automatic: bool = False,
    needs_approval: bool = False,
) -> OutboundMessage:
    """Store an answer to the message and enqueue its job; see `request_outbound`."""
    content = reply_content(message, text=text, html_text=html)
    return request_outbound(
        message.account, content, action=action, automatic=automatic, needs_approval=needs_approval
    )


def request_forward(
    message: Message,
    *,
    to: Addresses,
    cc: Addresses = (),
    bcc: Addresses = (),
    note: str = "",
    subject: str = "",
    include_original: IncludeOriginal = "inline",
    action: Action | None = None,
    automatic: bool = False,
    needs_approval: bool = False,
) -> OutboundMessage:
    """Store a message that passes this one on, and enqueue its job; see `request_outbound`."""
    content = forward_content(
        message,
        to=to,
        cc=cc,
        bcc=bcc,
        note=note,
        subject=subject,
        include_original=include_original,
    )
    return request_outbound(
        message.account, content, action=action, automatic=automatic, needs_approval=needs_approval
    )


def request_outbound(
    account: MailAccount,
    content: Content,
    *,
    action: Action | None = None,
    automatic: bool = False,
    needs_approval: bool = False,
) -> OutboundMessage:
    """Store a message and enqueue its job; with `needs_approval` it waits for an approval instead.

    Must run in the firm's scope. An action sends one message: a second call returns the same one.

    Raises:
        OutboundInvalid: a field cannot be sent as it is.
        AutomaticRefused: nobody wrote the message, and it could begin a loop.
    """
    if action is not None:
        found: OutboundMessage | None = OutboundMessage.objects.filter(action=action).first()
        if found is not None:
            return found
    outbound = _new_row(account, content, action=action, automatic=automatic)
    _check(outbound)
    if automatic:
        check_automatic(account, content)
    outbound.status = OutboundStatus.APPROVED_PENDING
    outbound.save(force_insert=True)
    if not needs_approval:
        release_outbound(outbound)
    return outbound


def release_outbound(outbound: OutboundMessage, *, at_once: bool = False) -> None:
    """Release the message: enqueue its job, to start when the time to cancel it is over.

    Must run in the firm's scope, with the message waiting or unknown and its row locked or new.
    """
    delay = 0 if at_once else outbound.account.send_delay_seconds
    outbound.status = OutboundStatus.QUEUED
    outbound.error = ""
    outbound.send_after = timezone.now() + timedelta(seconds=delay)
    outbound.database_id = database_identity()
    outbound.job_id = _enqueue_release(outbound, delay)
    outbound.save(
        update_fields=["status", "error", "releases", "send_after", "database_id", "job_id"]
    )


def _enqueue_release(outbound: OutboundMessage, delay: int) -> UUID:
    """Enqueue the job of the message's next release, and return its id."""
    while True:
        outbound.releases += 1
        requested = enqueue(
            "outbound.send",
            {
                "account_id": outbound.account_id,
                "outbound_id": outbound.pk,
                "release": outbound.releases,
            },
            priority=Priority.HIGH,
            delay=delay,
            lock_key=send_lock(outbound),
        )
        # If somebody enqueued a job for this release by hand before the approval, that job did
        # nothing, but holds the release's key for ever.
        if requested.created:
            return requested.job.pk


def send_lock(outbound: OutboundMessage) -> str:
    """Return the lock key under which it is sent: its thread's, or its own."""
    if outbound.message is not None and outbound.gmail_thread_id:
        return thread_lock(outbound.message.thread_id)
    return f"outbound:{outbound.pk}"


def content_hash_of(outbound: OutboundMessage) -> str:
    """Return the hash of everything the message says, of its recipients and its sender."""
    said = {name: getattr(outbound, name) for name in _HASHED}
    text = json.dumps(said, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def outgoing_mail(outbound: OutboundMessage) -> OutgoingMail:
    """Return the stored content as the outgoing message, without its attachments."""
    return OutgoingMail(
        sender=Address(**outbound.sender),
        to=from_stored(outbound.to),
        cc=from_stored(outbound.cc),
        bcc=from_stored(outbound.bcc),
        subject=outbound.subject,
        text=outbound.text,
        html=outbound.html,
        message_id=outbound.rfc822_id,
        in_reply_to=outbound.in_reply_to,
        references=tuple(outbound.references),
        automatic=outbound.automatic,
        outbound_id=str(outbound.pk),
    )


def _new_row(
    account: MailAccount, content: Content, *, action: Action | None, automatic: bool
) -> OutboundMessage:
    sender, signature = sender_of(account, content.message)
    text, html = signed(content.text, content.html, signature)
    answers = automatic and content.kind == OutboundKind.REPLY and content.to
    outbound = OutboundMessage(
        firm_id=account.firm_id,
        account=account,
        message=content.message,
        action=action,
        kind=content.kind,
        automatic=automatic,
        auto_reply_to=untagged(content.to[0].key) if answers else "",
        sender=asdict(sender),
        to=as_stored(content.to),
        cc=as_stored(content.cc),
        bcc=as_stored(content.bcc),
        subject=content.subject,
        text=text,
        html=html,
        attachments=list(content.attachments),
        in_reply_to=content.in_reply_to,
        references=list(content.references),
        gmail_thread_id=content.gmail_thread_id,
    )
    outbound.rfc822_id = f"<mailroom.{outbound.pk.hex}@{account.address.rpartition('@')[2]}>"
    outbound.content_hash = content_hash_of(outbound)
    return outbound


def _check(outbound: OutboundMessage) -> None:
    faults = faults_of(outgoing_mail(outbound))
    if outbound.kind != OutboundKind.FORWARD and not (outbound.text.strip() or outbound.html):
        faults.append(Fault("text", "required", "Write something."))
    size = sum(int(one.get("size", 0)) for one in outbound.attachments)
    if size > MAX_ATTACHMENT_BYTES:
        most = MAX_ATTACHMENT_BYTES // 1024**2
        faults.append(Fault("attachments", "too_large", f"At most {most} MB can be sent."))
    if faults:
        raise OutboundInvalid(faults)


def database_identity() -> str:
    """Return a text that changes when the database is restored; empty on SQLite, which has none.

    PostgreSQL gives a cluster an identifier when it is created, and a new timeline when it is
    recovered to an earlier time or a standby takes over; a table restored from a dump has a new
    number. A message that was queued before such a moment may have been sent after it.
    """
    if connection.vendor != "postgresql":
        return ""
    with connection.cursor() as cursor:
        cursor.execute(_PARTS)
        return ":".join(str(part) for part in cursor.fetchone())
