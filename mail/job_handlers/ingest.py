"""`ingest.gmail`, `ingest.page.gmail` and `email_processing`: fetch and store messages."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from jobs.execution.context import JobContext
from jobs.registry import JobPayload, job
from jobs.states import Category
from mail.conf import onboarding_messages
from mail.gmail import units
from mail.job_handlers.base import (
    GMAIL_BREAKER,
    GMAIL_RETRY,
    AccountPayload,
    mailbox,
    mailbox_key,
    usable_mailbox,
)
from mail.models import MAX_GMAIL_ID_LENGTH
from mail.services.mailboxes.connection import mailbox_limit_key
from mail.services.onboarding.onboard import onboard
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


class EmailProcessingPayload(JobPayload):
    """A mailbox by its id."""

    connection_id: UUID


@job(
    "email_processing",
    category=Category.INGESTION,
    payload=EmailProcessingPayload,
    retry=GMAIL_RETRY,
    breaker=GMAIL_BREAKER,
    limit_key=lambda payload: mailbox_limit_key(payload.connection_id),
    limit_units=lambda _: units.READ * onboarding_messages(),
    lock_key=lambda payload: ingest_lock(payload.connection_id),
    idempotency_key=lambda payload: f"email_processing:{payload.connection_id}",
)
def email_processing(payload: EmailProcessingPayload, ctx: JobContext) -> dict[str, Any]:
    """Read the last days and tell the owner."""
    with usable_mailbox(payload.tenant_id, payload.connection_id) as (account, gmail):
        return onboard(ctx, account, gmail)
