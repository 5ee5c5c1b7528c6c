"""`labels.sync.gmail`: learns which labels a mailbox has, and follows its pause label."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.schedules.defaults import default_schedule
from jobs.states import Category
from mail.conf import labels_sync_interval_seconds
from mail.job_handlers.base import GMAIL_BREAKER, GMAIL_RETRY, AccountPayload, mailbox, mailbox_key
from mail.services.mailboxes.modes import follow_pause_label
from mail.services.mailboxes.schedule_targets import MAILBOXES
from mail.services.queueing import LABELS_TYPE, sync_lock
from mail.services.syncing.labels import refresh_labels


@job(
    LABELS_TYPE,
    category=Category.SYNC,
    payload=AccountPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    breaker=GMAIL_BREAKER,
    lock_key=lambda payload: sync_lock(payload.account_id),
    idempotency_key=lambda payload: f"{LABELS_TYPE}:{payload.account_id}",
)
def sync_labels(payload: AccountPayload, _: JobContext) -> dict[str, Any]:
    """Bring the known labels in line with Gmail's."""
    with mailbox(payload) as (account, gmail):
        changes = refresh_labels(account, gmail)
        follow_pause_label(account, gmail)
        return asdict(changes)


default_schedule(
    "Sync labels",
    LABELS_TYPE,
    every_seconds=labels_sync_interval_seconds,
    group_name=MAILBOXES,
)
