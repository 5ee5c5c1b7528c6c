"""`email_processing`: reads the last days of a newly connected mailbox."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jobs.execution.context import JobContext
from jobs.registry import JobPayload, job
from jobs.states import Category
from mail.conf import onboarding_messages
from mail.gmail import units
from mail.job_handlers.base import GMAIL_BREAKER, GMAIL_RETRY, usable_mailbox
from mail.services.mailboxes.connection import mailbox_limit_key
from mail.services.onboarding.onboard import onboard
from mail.services.queueing import ingest_lock


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
