"""`watch.renew.gmail`: has Gmail publish a mailbox's changes for another week."""

from __future__ import annotations

from typing import Any

from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.schedules.defaults import default_schedule
from jobs.states import Category
from mail.conf import watch_renew_interval_seconds
from mail.gmail import units
from mail.job_handlers.base import GMAIL_BREAKER, GMAIL_RETRY, AccountPayload, mailbox, mailbox_key
from mail.services.mailboxes.schedule_targets import MAILBOXES
from mail.services.queueing import WATCH_TYPE, sync_lock
from mail.services.syncing.watch import renew_watch


@job(
    WATCH_TYPE,
    category=Category.SYNC,
    payload=AccountPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=units.WATCH,
    breaker=GMAIL_BREAKER,
    lock_key=lambda payload: sync_lock(payload.account_id),
    idempotency_key=lambda payload: f"{WATCH_TYPE}:{payload.account_id}",
)
def renew(payload: AccountPayload, _: JobContext) -> dict[str, Any]:
    """Renew the watch."""
    with mailbox(payload) as (account, gmail):
        return renew_watch(account, gmail)


default_schedule(
    "Renew watches",
    WATCH_TYPE,
    every_seconds=watch_renew_interval_seconds,
    group_name=MAILBOXES,
    at_start=True,
)
