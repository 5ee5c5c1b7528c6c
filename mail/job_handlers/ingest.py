"""`ingest.gmail` and `ingest.page.gmail`: fetch and store messages."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.states import Category
from mail.gmail import units
from mail.job_handlers.base import GMAIL_BREAKER, GMAIL_RETRY, AccountPayload, mailbox, mailbox_key
from mail.models import MAX_GMAIL_ID_LENGTH
from mail.services.queueing import PAGE, enqueue_each_ingest, ingest_lock
from mail.services.syncing.ingest import ingest_message, ingest_page
from tenants.scope import firm_scope

GmailMessageId = Annotated[str, Field(min_length=1, max_length=MAX_GMAIL_ID_LENGTH)]


class IngestPayload(AccountPayload):
    """A message by Gmail's id."""

    gmail_message_id: GmailMessageId


class IngestPagePayload(AccountPayload):
    """Messages by Gmail's ids."""

    gmail_message_ids: list[GmailMessageId] = Field(min_length=1, max_length=PAGE)


@job(
    "ingest.gmail",
    category=Category.INGESTION,
    payload=IngestPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=units.READ,
    breaker=GMAIL_BREAKER,
    idempotency_key=lambda p: f"ingest.gmail:{p.account_id}:{p.gmail_message_id}",
)
def ingest(payload: IngestPayload, _: JobContext) -> dict[str, Any]:
    """Store the message and have its thread judged."""
    with mailbox(payload) as (account, gmail):
        return ingest_message(account, gmail, payload.gmail_message_id)


@job(
    "ingest.page.gmail",
    category=Category.INGESTION,
    payload=IngestPagePayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=lambda payload: units.READ * len(payload.gmail_message_ids),
    breaker=GMAIL_BREAKER,
    lock_key=lambda payload: ingest_lock(payload.account_id),
)
def ingest_many(payload: IngestPagePayload, ctx: JobContext) -> dict[str, Any]:
    """Store the messages and have their threads judged.

    After a failed attempt each message gets a job of its own, because one of them may be the cause.
    """
    with mailbox(payload) as (account, gmail):
        if ctx.attempt == 1:
            return ingest_page(account, gmail, payload.gmail_message_ids)
        with firm_scope(account.firm_id):
            alone = enqueue_each_ingest(account, payload.gmail_message_ids)
        return {"ingested_alone": alone}
