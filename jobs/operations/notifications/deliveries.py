"""The record of each attempt to send something."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from interfaces.redaction import redact
from jobs.engine.clock import database_now
from jobs.errors import Fatal
from jobs.execution.context import JobContext
from jobs.models import Delivery, NotificationEndpoint
from jobs.retry import RetryPolicy
from jobs.states import Channel, DeliveryStatus
from tenants.scope import firm_scope

MAX_ERROR_LENGTH = 500
# Between the recipients of one e-mail.
SEPARATOR = ", "
# Ten attempts over about three hours.
NOTIFICATION_RETRY = RetryPolicy(max_attempts=10, base_delay_seconds=30, max_delay_seconds=3600)


@contextmanager
def recorded(
    ctx: JobContext,
    channel: Channel,
    recipient: str,
    *,
    event: str = "",
    endpoint: NotificationEndpoint | None = None,
) -> Iterator[Delivery]:
    """Record the block's attempt to send: before the block that it begins, after it how it ended.

    Raises:
        LeaseLost: the job is no longer this worker's, so another one sends.
    """
    ctx.heartbeat()
    row = Delivery(
        firm_id=ctx.firm_id,
        endpoint_id=None if endpoint is None else endpoint.pk,
        channel=channel,
        event=event,
        recipient=recipient,
        job_id=ctx.job_id,
        attempt=ctx.attempt,
    )
    with firm_scope(ctx.firm_id):
        row.save(force_insert=True)
    try:
        yield row
    except BaseException as error:
        status = DeliveryStatus.REFUSED if isinstance(error, Fatal) else DeliveryStatus.FAILED
        _finish(row, status, redact(f"{type(error).__name__}: {error}", MAX_ERROR_LENGTH))
        raise
    _finish(row, DeliveryStatus.DELIVERED)


def delivered_by(ctx: JobContext, channel: Channel) -> list[Delivery]:
    """Return what the job has sent, also in an attempt whose end could not be stored."""
    with firm_scope(ctx.firm_id):
        mine = Delivery.objects.filter(job_id=ctx.job_id, channel=channel)
        return list(mine.filter(status=DeliveryStatus.DELIVERED))


def _finish(row: Delivery, status: DeliveryStatus, error: str = "") -> None:
    columns: dict[str, Any] = {"status": status, "error": error, "finished_at": database_now()}
    with firm_scope(row.firm_id):
        mine = Delivery.objects.filter(pk=row.pk)
        mine.update(**columns, recipient=row.recipient, status_code=row.status_code)


def find_endpoint(firm_id: int, endpoint_id: UUID) -> NotificationEndpoint | None:
    """Return the firm's endpoint, None if it was removed."""
    with firm_scope(firm_id):
        found: NotificationEndpoint | None = NotificationEndpoint.objects.filter(
            pk=endpoint_id
        ).first()
    return found
