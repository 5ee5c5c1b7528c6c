"""Obeys a label that the person gave to a message which is not stored yet."""

from __future__ import annotations

from typing import Any

from jobs.queue import EnqueueResult
from mail.gmail.client import GmailClient
from mail.labels import LabelKey
from mail.llm.base import Category
from mail.models import MailAccount, Message
from mail.services.deciding.requests import enqueue_order
from mail.services.drafting.requests import enqueue_done, enqueue_manual_draft
from mail.services.drafting.task import skipped
from mail.services.syncing.ingest import ingest_message
from tenants.scope import firm_scope


def follow_unstored(
    account: MailAccount, gmail: GmailClient, gmail_message_id: str, order: LabelKey
) -> dict[str, Any]:
    """Store the message, then enqueue what its label asks for; return the job's result."""
    ingest_message(account, gmail, gmail_message_id)
    with firm_scope(account.firm_id):
        stored = Message.objects.filter(account=account, gmail_message_id=gmail_message_id)
        message: Message | None = stored.only("account", "thread", "firm").first()
        if message is None:
            return skipped("The message is no longer in Gmail")
        return {"job_id": str(enqueue_asked(message, order).job_id)}


def enqueue_asked(message: Message, order: LabelKey) -> EnqueueResult:
    """Enqueue what this label on the message asks for. Must run in the firm's scope."""
    if order == LabelKey.DONE:
        return enqueue_done(message.thread, upto=message)
    if order == LabelKey.NEEDS_RESPONSE:
        return enqueue_manual_draft(message)
    return enqueue_order(message, Category(order.value))
