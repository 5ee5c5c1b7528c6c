"""`message.index`: search finds messages by it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pydantic import Field

from jobs.execution.context import JobContext
from jobs.registry import JobPayload, job
from jobs.schedules.defaults import default_schedule
from jobs.states import Category
from mail.services.documents.backlog import UNINDEXED
from mail.services.documents.index import index_missing, index_some
from mail.services.queueing import PAGE

SWEEP_SECONDS = 3600


class MessageIndexPayload(JobPayload):
    """Messages by our ids; without any, all of the firm's that are not indexed yet."""

    message_ids: list[UUID] = Field(default_factory=list, max_length=PAGE)


@job("message.index", category=Category.DOCUMENTS, payload=MessageIndexPayload)
def index(payload: MessageIndexPayload, ctx: JobContext) -> dict[str, Any]:
    """Index messages. What is ingested is indexed at once: this is for mail from before that."""
    if payload.message_ids:
        return {"indexed": index_some(payload.tenant_id, payload.message_ids)}
    indexed = 0
    while some := index_missing(payload.tenant_id):
        indexed += some
        ctx.heartbeat()
    return {"indexed": indexed}


default_schedule(
    "Index mail",
    "message.index",
    every_seconds=lambda: SWEEP_SECONDS,
    group_name=UNINDEXED,
    at_start=True,
)
