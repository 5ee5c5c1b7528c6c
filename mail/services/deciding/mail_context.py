"""Turns stored messages back into the facts from which a classifier decides."""

from __future__ import annotations

from collections.abc import Sequence

from mail.llm.base import MailContext, SenderHistory
from mail.models import Message
from mail.services.sending.compose import stored_headers
from mail.services.timelines.correspondents import outline_with_target
from mail.text.parsed import Address, AttachmentMeta, from_stored


def mail_context(
    message: Message,
    thread: Sequence[Message],
    own_addresses: frozenset[str],
    history: SenderHistory | None = None,
) -> MailContext:
    """Return the facts about `message` in its thread, newest message first.

    Who else uses the same form is not among them. It reads the attachments, so it must run in the
    firm's scope.
    """
    thread = outline_with_target(message, thread, own_addresses)
    return MailContext(
        sender=Address(message.sender_name, message.sender_address),
        own_addresses=own_addresses,
        subject=message.subject,
        text=message.text,
        headers=stored_headers(message),
        to=from_stored(message.to),
        cc=from_stored(message.cc),
        hidden_text=message.hidden_text,
        attachments=_attachments(message),
        calendar_method=message.calendar_method,
        thread_messages=len(thread),
        user_wrote_last=thread[0].outgoing,
        history=history or SenderHistory(),
    )


def _attachments(message: Message) -> tuple[AttachmentMeta, ...]:
    return tuple(
        AttachmentMeta(
            part_id=row.part_id,
            filename=row.filename,
            mime_type=row.mime_type,
            size=row.size,
            attachment_id=row.gmail_attachment_id,
            content_id=row.content_id,
            inline=row.inline,
        )
        for row in sorted(message.attachments.all(), key=lambda row: row.part_id)
    )
