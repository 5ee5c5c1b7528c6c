"""Fetches the files of an outbound message by part id, because Gmail's attachment ids expire."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from mail.errors import RowGone
from mail.gmail.answers import MessagePart
from mail.gmail.client import GmailClient
from mail.gmail.mime import OutgoingFile
from mail.models import MailAccount, Message
from mail.services.sending.compose import ROOT_PART, WHOLE_MESSAGE
from tenants.scope import firm_scope


def fetch_files(
    account: MailAccount, gmail: GmailClient, references: Iterable[dict[str, Any]]
) -> tuple[OutgoingFile, ...]:
    """Return the attachments with their bytes.

    Raises:
        RowGone: the message that has the file is no longer stored in this mailbox.
        GmailNotFound: it is no longer in Gmail.
    """
    return tuple(_fetch(account, gmail, reference) for reference in references)


def _fetch(account: MailAccount, gmail: GmailClient, reference: dict[str, Any]) -> OutgoingFile:
    with firm_scope(account.firm_id):
        rows = Message.objects.filter(account=account, pk=reference["message_id"])
        gmail_id = rows.values_list("gmail_message_id", flat=True).first()
    if gmail_id is None:
        raise RowGone(f"message {reference['message_id']}, whose file is to be sent, is gone")
    if _is_whole(reference):
        content = _decoded(gmail.get_message(gmail_id, fmt="raw").get("raw", ""))
    else:
        part_id = reference["part_id"]
        content = _part(gmail, gmail_id, "" if part_id == ROOT_PART else part_id)
    return OutgoingFile(reference["filename"], reference["mime_type"], content)


def _is_whole(reference: dict[str, Any]) -> bool:
    # An earlier version used the empty id also for a body that is itself an attachment.
    return not reference["part_id"] and reference["mime_type"] == WHOLE_MESSAGE


def _part(gmail: GmailClient, gmail_id: str, part_id: str) -> bytes:
    payload = gmail.get_message(gmail_id).get("payload", {})
    part = _find(payload, part_id)
    if part is None:
        raise RowGone(f"part {part_id} of message {gmail_id} is gone")
    body = part.get("body")
    if body is not None and "attachmentId" in body:
        return gmail.get_attachment(gmail_id, body["attachmentId"])
    return _decoded(body.get("data", "") if body is not None else "")


def _find(part: MessagePart, part_id: str) -> MessagePart | None:
    waiting = [part]
    while waiting:
        one = waiting.pop()
        if one.get("partId", "") == part_id:
            return one
        waiting += one.get("parts", [])
    return None


def _decoded(data: str) -> bytes:
    return base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))
