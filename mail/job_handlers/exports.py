"""`firm_export`, `gdpr_export`, `erase_subject`: what people may ask for about data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from jobs.engine.lease import JobLease
from jobs.errors import Cancel, Snooze
from jobs.execution.context import JobContext
from jobs.registry import JobPayload, job
from jobs.registry.system_payload import SystemPayload
from jobs.retry import RetryPolicy
from jobs.schedules.defaults import default_schedule
from jobs.states import Category
from mail.job_handlers.base import failing_at_last
from mail.models import DataRequest, RequestKind, RequestStatus
from mail.services.exports.erase import erase_step
from mail.services.exports.requests import (
    IN_FLIGHT_SECONDS,
    expire_exports,
    fail_request,
    fail_stranded,
    request_of_job,
)
from mail.services.exports.write import export_step

# Many attempts are cheap, because each goes on after the steps that are done.
RETRY = RetryPolicy(max_attempts=10, base_delay_seconds=1, max_delay_seconds=300)
EXPIRE_SECONDS = 3600


class FirmExportPayload(JobPayload):
    """A request by its id; without one a job exports its own firm, the system firm's any other."""

    request_id: UUID | None = None
    firm_id: int | None = None


class RequestPayload(JobPayload):
    """A request by its id."""

    request_id: UUID


@contextmanager
def _request(
    ctx: JobContext, request_id: UUID | None, about_firm_id: int | None = None
) -> Iterator[DataRequest]:
    """Yield the job's request; mark it as failed if no further attempt will be made."""
    request = request_of_job(_lease(ctx), request_id, about_firm_id)
    if request is None:
        raise Cancel("This job has no such request, or the firm it is about is gone")
    found_id = request.pk
    with failing_at_last(ctx, lambda _: fail_request(ctx.firm_id, found_id)):
        yield request


def _lease(ctx: JobContext) -> JobLease:
    return JobLease(ctx.job_id, ctx.firm_id, ctx.fence)


def _export(request: DataRequest, ctx: JobContext) -> dict[str, Any]:
    lease = _lease(ctx)
    if request.status == RequestStatus.READY:
        return {"request_id": str(request.pk), "rows": sum(request.counts.values())}
    while (done := export_step(request.pk, lease)) is None:
        ctx.heartbeat()
    return {"request_id": str(done.pk), "rows": sum(done.counts.values())}


@job(
    RequestKind.FIRM_EXPORT.value,
    category=Category.EXPORT,
    payload=FirmExportPayload,
    # Before 1.1 a request had the id of its job, so an older worker would create a second request.
    version="1.1",
    upcasters={"1.0": dict},
    retry=RETRY,
)
def firm_export(payload: FirmExportPayload, ctx: JobContext) -> dict[str, Any]:
    """Export all that a firm owns."""
    with _request(ctx, payload.request_id, payload.firm_id) as request:
        return _export(request, ctx)


@job(
    RequestKind.GDPR_EXPORT.value,
    category=Category.EXPORT,
    payload=RequestPayload,
    retry=RETRY,
)
def gdpr_export(payload: RequestPayload, ctx: JobContext) -> dict[str, Any]:
    """Export all that mentions a person."""
    with _request(ctx, payload.request_id) as request:
        return _export(request, ctx)


@job(
    RequestKind.ERASE_SUBJECT.value,
    category=Category.EXPORT,
    payload=RequestPayload,
    retry=RETRY,
)
def erase_subject(payload: RequestPayload, ctx: JobContext) -> dict[str, Any]:
    """Erase a person: delete the mail that mentions them, and their address everywhere else."""
    lease = _lease(ctx)
    with _request(ctx, payload.request_id) as request:
        while not (step := erase_step(request.pk, lease)).is_over:
            ctx.heartbeat()
            if step.waits:
                raise Snooze("Jobs about the person are in flight", seconds=IN_FLIGHT_SECONDS)
        return {"request_id": str(request.pk), "rows": sum(step.counts.values())}


@job("exports.expire", category=Category.MAINTENANCE, payload=SystemPayload)
def expire(_: SystemPayload, __: JobContext) -> dict[str, Any]:
    """Delete the exports of every firm whose time is over; note requests whose jobs ended as failed."""
    return {"expired": expire_exports(), "failed": fail_stranded()}


default_schedule("Expire exports", "exports.expire", every_seconds=lambda: EXPIRE_SECONDS)
