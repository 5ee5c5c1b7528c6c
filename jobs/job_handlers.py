"""The job types of the queue itself."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Self
from uuid import UUID

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from pydantic import Field, StrictBool, StrictStr, field_validator, model_validator

from jobs import conf
from jobs.engine.prune import prune
from jobs.engine.transactions import LockTimeout
from jobs.errors import Cancel, Fatal, Snooze
from jobs.execution.context import JobContext
from jobs.operations import deletion, deletion_steps
from jobs.operations.bulk_step import do_step
from jobs.operations.escalation import escalation_notice_of
from jobs.operations.notifications.alerts import alert_new_failures, alert_unreviewed
from jobs.operations.notifications.deliveries import NOTIFICATION_RETRY, find_endpoint
from jobs.operations.notifications.emails import send_email
from jobs.operations.notifications.events import (
    EMAIL_JOB_TYPE,
    MAX_SUBJECT_LENGTH,
    WEBHOOK_JOB_TYPE,
)
from jobs.operations.notifications.webhooks import send_webhook
from jobs.registry import JobPayload, job
from jobs.registry.system_payload import SystemPayload
from jobs.retry import RetryPolicy
from jobs.schedules.defaults import default_schedule
from jobs.states import Category, Channel, NotificationEvent, Priority
from tenants.models import Firm

MAINTENANCE = Category.MAINTENANCE
# Workers of `bench_queue` run these types only, and leave other jobs of the database alone.
BENCH_JOB_TYPE = "bench_noop"
BENCH_WRITE_JOB_TYPE = "bench_write"
# A bulk run gives its thread back after BULK_SECONDS. After each chunk it pauses for BULK_PAUSE
# times the duration of that chunk, within the bounds.
BULK_SECONDS = 20.0
BULK_PAUSE, LEAST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 0.25, 0.01, 0.25
LEAST_SNOOZE_SECONDS = 0.1
# Seconds until a deletion checks again whether the jobs in flight have ended.
IN_FLIGHT_SECONDS = 1.0
# Retries come soon, because an operator is watching and a retry does not repeat finished work.
BULK_RETRY = RetryPolicy(max_attempts=10, base_delay_seconds=1, max_delay_seconds=30)
NOTIFICATION_TIMEOUT_SECONDS = 60
MAX_RECIPIENTS = 50


class EscalationNoticePayload(JobPayload):
    """The dead letter that needs attention."""

    dead_letter_id: UUID


@job(BENCH_JOB_TYPE, category=MAINTENANCE, payload=JobPayload)
@job("noop", category=MAINTENANCE, payload=JobPayload)
def noop(payload: JobPayload, ctx: JobContext) -> None:
    """Do nothing: for benchmarks, and to check that the queue runs."""


@job(BENCH_WRITE_JOB_TYPE, category=MAINTENANCE, payload=JobPayload)
def bench_write(payload: JobPayload, ctx: JobContext) -> None:
    """Append 24 bytes to a file: like most handlers it waits for the system, and so lets others run."""
    os.write(_bench_file(), bytes(24))


@cache
def _bench_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


@job("purge_jobs", category=MAINTENANCE, payload=JobPayload, lock_key=lambda _: "purge_jobs")
def purge_jobs(payload: JobPayload, ctx: JobContext) -> dict[str, int]:
    """Delete old finished jobs; the system firm's job does it for every firm."""
    firms = [ctx.firm] if not ctx.firm.is_system else list(Firm.objects.all())
    totals: Counter[str] = Counter()
    for firm in firms:
        ctx.heartbeat()
        totals.update(vars(prune(firm)))
    return dict(totals)


default_schedule(
    "Purge old jobs", "purge_jobs", every_seconds=lambda: conf.purge_interval_hours() * 3600
)


class BulkPayload(JobPayload):
    """The bulk run to do."""

    run_id: UUID


@job("dlq_bulk", category=MAINTENANCE, payload=BulkPayload, retry=BULK_RETRY)
@job("job_bulk", category=MAINTENANCE, payload=BulkPayload, retry=BULK_RETRY)
def bulk(payload: BulkPayload, ctx: JobContext) -> dict[str, Any]:
    """Do a bulk run, for a while at a time: other jobs get the thread in between."""
    until = time.monotonic() + BULK_SECONDS
    while True:
        ctx.heartbeat()
        begun = time.monotonic()
        step = do_step(payload.run_id, ctx.firm, ctx.job_id, ctx.fence)
        if step.is_over:
            run = step.run
            return {"state": run.state, "done": run.done, "refused": run.refused} if run else {}
        now = time.monotonic()
        if step.wait_seconds or now > until:
            raise Snooze(seconds=max(step.wait_seconds, LEAST_SNOOZE_SECONDS))
        # Lets others write: on SQLite nobody else can write during a chunk.
        time.sleep(min(max((now - begun) * BULK_PAUSE, LEAST_PAUSE_SECONDS), MOST_PAUSE_SECONDS))


class DeleteFirmPayload(JobPayload):
    """The firm to delete."""

    firm_id: int
    # The deletion waits for this export to complete.
    export_job_id: UUID | None = None


class DeleteUserPayload(JobPayload):
    """The user to delete: the key as text, whatever its type."""

    user_id: str


@job(deletion.FIRM_JOB_TYPE, category=MAINTENANCE, payload=DeleteFirmPayload, retry=BULK_RETRY)
def delete_firm(payload: DeleteFirmPayload, ctx: JobContext) -> None:
    """Delete a firm's rows, for a while at a time; wait for its jobs in flight to end."""
    deleter = deletion_steps.deleter_of(ctx.firm, ctx.job_id, ctx.fence)
    if payload.export_job_id is not None and not deletion.is_exported(payload.export_job_id):
        raise Snooze("Waiting for the export", seconds=IN_FLIGHT_SECONDS)
    until = time.monotonic() + BULK_SECONDS
    with _later_if_locked():
        for step in deletion_steps.firm_steps(payload.firm_id, deleter):
            ctx.heartbeat()
            if step.waits or time.monotonic() > until:
                raise Snooze(seconds=IN_FLIGHT_SECONDS if step.waits else LEAST_SNOOZE_SECONDS)
            time.sleep(LEAST_PAUSE_SECONDS)


@job(deletion.USER_JOB_TYPE, category=MAINTENANCE, payload=DeleteUserPayload, retry=BULK_RETRY)
def delete_user(payload: DeleteUserPayload, ctx: JobContext) -> None:
    """Delete a user's jobs in one pass over all jobs, then the user."""
    deleter = deletion_steps.deleter_of(ctx.firm, ctx.job_id, ctx.fence)
    with _later_if_locked():
        if deletion_steps.delete_jobs(payload.user_id, deleter, ctx.heartbeat):
            raise Snooze(seconds=IN_FLIGHT_SECONDS)
        deletion_steps.end_user(payload.user_id, deleter)


@contextmanager
def _later_if_locked() -> Iterator[None]:
    """Snooze if another transaction has locked a row: a caller may keep it open for long."""
    try:
        yield
    except LockTimeout:
        raise Snooze("Waiting for a locked row", seconds=IN_FLIGHT_SECONDS) from None


@job("escalation_notice", category=Category.NOTIFICATIONS, payload=EscalationNoticePayload)
def escalation_notice(payload: EscalationNoticePayload, ctx: JobContext) -> dict[str, int]:
    """Tell the assignee, or the firm's admins, about an escalated dead letter by e-mail."""
    notice = escalation_notice_of(ctx.firm, payload.dead_letter_id)
    if notice.recipients:
        event = NotificationEvent.ESCALATED
        send_email(ctx, notice.recipients, notice.subject, notice.body, event=event)
    return {"recipients": len(notice.recipients)}


class EmailPayload(JobPayload):
    """An e-mail to addresses, or to the one of a notification endpoint."""

    to: list[StrictStr] = Field(default=[], max_length=MAX_RECIPIENTS)
    endpoint_id: UUID | None = None
    event: StrictStr = Field(default="", max_length=100)
    subject: StrictStr = Field(min_length=1, max_length=MAX_SUBJECT_LENGTH)
    body: StrictStr
    # The service's own notice: if it arrives in a mailbox, it is not read as mail. E-mails to an
    # endpoint always count as notices.
    is_notice: StrictBool = False

    @field_validator("to")
    @classmethod
    def _check_addresses(cls, addresses: list[str]) -> list[str]:
        for number, address in enumerate(addresses):
            try:
                validate_email(address)
            except ValidationError:
                # The address is left out, because messages do not repeat values from the payload.
                raise ValueError(f"address number {number + 1} is not an e-mail address") from None
        return addresses

    @field_validator("subject")
    @classmethod
    def _check_subject(cls, subject: str) -> str:
        if not subject.isprintable():
            raise ValueError("must be one line of text")
        return subject

    @model_validator(mode="after")
    def _check_recipient(self) -> Self:
        if bool(self.to) == bool(self.endpoint_id):
            raise ValueError("give either to or endpoint_id")
        return self


class WebhookPayload(JobPayload):
    """What to send to a notification endpoint."""

    endpoint_id: UUID
    event: StrictStr = Field(min_length=1, max_length=100)
    data: dict[str, Any] = {}


@job(
    EMAIL_JOB_TYPE,
    category=Category.NOTIFICATIONS,
    payload=EmailPayload,
    # Version 1.1 added `is_notice`: workers that know only 1.0 leave such jobs to newer workers.
    version="1.1",
    upcasters={"1.0": dict},
    retry=NOTIFICATION_RETRY,
    timeout_seconds=NOTIFICATION_TIMEOUT_SECONDS,
)
def email_send(payload: EmailPayload, ctx: JobContext) -> dict[str, int]:
    """Send an e-mail."""
    to, endpoint = payload.to, None
    if payload.endpoint_id is not None:
        endpoint = find_endpoint(ctx.firm_id, payload.endpoint_id)
        if endpoint is None or not endpoint.enabled:
            raise Cancel("the endpoint was removed or is disabled")
        if endpoint.channel != Channel.EMAIL:
            raise Fatal("the endpoint takes no e-mails")
        to = [endpoint.target]
    send_email(
        ctx,
        to,
        payload.subject,
        payload.body,
        event=payload.event,
        endpoint=endpoint,
        is_notice=payload.is_notice or endpoint is not None,
    )
    return {"recipients": len(to)}


@job(
    WEBHOOK_JOB_TYPE,
    category=Category.NOTIFICATIONS,
    payload=WebhookPayload,
    retry=NOTIFICATION_RETRY,
    timeout_seconds=NOTIFICATION_TIMEOUT_SECONDS,
    limit_key=lambda payload: f"endpoint:{payload.endpoint_id}",
)
def webhook_send(payload: WebhookPayload, ctx: JobContext) -> dict[str, Any]:
    """Send a signed webhook to a notification endpoint."""
    return send_webhook(ctx, payload.endpoint_id, payload.event, payload.data)


@job("dlq_alert", category=MAINTENANCE, payload=SystemPayload, lock_key=lambda _: "dlq_alert")
def dlq_alert(payload: SystemPayload, ctx: JobContext) -> dict[str, int]:
    """Alert to new failures among the dead letters of every firm; a job of the system firm."""
    letters = 0
    while number := alert_new_failures():
        letters += number
        ctx.heartbeat()
    return {"dead_letters": letters}


@job("dlq_age_alert", category=MAINTENANCE, payload=JobPayload)
def dlq_age_alert(payload: JobPayload, ctx: JobContext) -> dict[str, int]:
    """Alert to dead letters that wait too long for a review; the system firm's job to all firms'."""
    return {"failures": alert_unreviewed(ctx.firm)}


default_schedule(
    "Alert to new failures",
    "dlq_alert",
    every_seconds=conf.alert_interval_seconds,
    priority=Priority.HIGH,
)
default_schedule(
    "Alert to unreviewed dead letters",
    "dlq_age_alert",
    every_seconds=lambda: conf.alert_age_interval_minutes() * 60,
    priority=Priority.HIGH,
)
