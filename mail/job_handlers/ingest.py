"""`ingest.gmail`: fetches and stores one message."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.states import Category
from mail.job_handlers.base import GMAIL_BREAKER, GMAIL_RETRY, AccountPayload, mailbox, mailbox_key
from mail.models import MAX_GMAIL_ID_LENGTH
from mail.services.ingest import ingest_message


class IngestPayload(AccountPayload):
    """A message by Gmail's id."""

    gmail_message_id: str = Field(min_length=1, max_length=MAX_GMAIL_ID_LENGTH)


@job(
    "ingest.gmail",
    category=Category.INGESTION,
    payload=IngestPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    breaker=GMAIL_BREAKER,
    idempotency_key=lambda p: f"ingest.gmail:{p.account_id}:{p.gmail_message_id}",
)
def ingest(payload: IngestPayload, _: JobContext) -> dict[str, Any]:
    """Store the message and have its thread judged."""
    with mailbox(payload) as (account, gmail):
        return ingest_message(account, gmail, payload.gmail_message_id)
