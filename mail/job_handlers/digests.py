"""`digests.enqueue_due` puts due digests into the queue, `digest_delivery` delivers one."""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID

from jobs.execution.context import JobContext
from jobs.registry import JobPayload, job
from jobs.registry.system_payload import SystemPayload
from jobs.retry import RetryPolicy
from jobs.schedules.defaults import default_schedule
from jobs.states import Category
from mail.conf import reminders_interval_seconds
from mail.services.digests.delivery import DELIVERY_TYPE, deliver_digest, enqueue_due_digests

ENQUEUE_TYPE = "digests.enqueue_due"


class DigestPayload(JobPayload):
    """A person and a mailbox by their ids, and the day of the person's calendar."""

    user_id: int
    account_id: UUID
    day: date


@job(
    DELIVERY_TYPE,
    category=Category.NOTIFICATIONS,
    payload=DigestPayload,
    retry=RetryPolicy(max_attempts=5, base_delay_seconds=30),
    timeout_seconds=120,
    idempotency_key=lambda p: f"{DELIVERY_TYPE}:{p.user_id}:{p.account_id}:{p.day}",
    once_only=True,
)
def deliver(payload: DigestPayload, ctx: JobContext) -> dict[str, Any]:
    """Deliver the digest, unless its person wants quiet: then when that ends."""
    return deliver_digest(ctx, payload.user_id, payload.account_id, payload.day)


@job(
    ENQUEUE_TYPE,
    category=Category.RECURRENCE,
    payload=SystemPayload,
    lock_key=lambda _: ENQUEUE_TYPE,
)
def enqueue_due(_: SystemPayload, ctx: JobContext) -> dict[str, Any]:
    """Enqueue the due digests of every firm; a job of the system firm."""
    return {"enqueued": enqueue_due_digests(ctx.heartbeat)}


default_schedule("Enqueue due digests", ENQUEUE_TYPE, every_seconds=reminders_interval_seconds)
