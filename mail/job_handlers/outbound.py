"""`outbound.send`: sends one message, once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jobs.errors import Cancel, Fatal, HandlerError, LeaseLost, Snooze
from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.states import Category
from mail.gmail import units
from mail.job_handlers.base import GMAIL_BREAKER, GMAIL_RETRY, AccountPayload, mailbox, mailbox_key
from mail.services.sending.send import send_outbound
from mail.services.sending.send_outcome import fail_send


class OutboundPayload(AccountPayload):
    """A message by our id; `release` counts how often it was let go."""

    outbound_id: UUID
    release: int = 1


def _key(payload: OutboundPayload) -> str:
    key = f"outbound.send:{payload.account_id}:{payload.outbound_id}"
    return key if payload.release == 1 else f"{key}:{payload.release}"


@job(
    "outbound.send",
    category=Category.NOTIFICATIONS,
    payload=OutboundPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=units.READ + units.READ_THREAD + units.SEND,
    breaker=GMAIL_BREAKER,
    once_only=True,
    idempotency_key=_key,
)
def send(payload: OutboundPayload, ctx: JobContext) -> dict[str, Any]:
    """Send the message; once no further attempt will be made, it has failed or is unknown."""
    try:
        with mailbox(payload) as (account, gmail):
            return send_outbound(
                account, gmail, payload.outbound_id, job_id=ctx.job_id, release=payload.release
            )
    except (Snooze, LeaseLost):
        raise
    except Exception as error:
        canceled = isinstance(error, Cancel)
        if canceled or isinstance(error, Fatal) or ctx.is_last_attempt:
            # Errors that are not ours may quote mail.
            text = str(error) if isinstance(error, HandlerError) else type(error).__name__
            fail_send(payload.tenant_id, payload.outbound_id, text, canceled=canceled)
        raise
