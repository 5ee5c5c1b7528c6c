"""`labels.sync.gmail`: learns which labels a mailbox has, and follows its pause label.

`label.page.gmail` puts first labels on many messages.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any
from uuid import UUID

from pydantic import Field

from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.schedules.defaults import default_schedule
from jobs.states import Category
from mail.conf import labels_sync_interval_seconds
from mail.job_handlers.base import (
    GMAIL_BREAKER,
    GMAIL_RETRY,
    AccountPayload,
    failing_at_last,
    mailbox,
    mailbox_key,
)
from mail.services.deciding.label_page import fail_actions, label_page
from mail.services.mailboxes.modes import follow_pause_label
from mail.services.mailboxes.schedule_targets import MAILBOXES
from mail.services.queueing import LABELS_TYPE, PAGE, sync_lock
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


class LabelPagePayload(AccountPayload):
    """Actions by our ids, and what they cost in Gmail's units at most."""

    action_ids: list[UUID] = Field(min_length=1, max_length=PAGE)
    units: int = Field(ge=1)


@job(
    "label.page.gmail",
    category=Category.ORCHESTRATION,
    payload=LabelPagePayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=lambda payload: payload.units,
    breaker=GMAIL_BREAKER,
)
def label_many(payload: LabelPagePayload, ctx: JobContext) -> dict[str, Any]:
    """Execute the actions; what is not done is failed once no further attempt will be made."""
    fail = partial(fail_actions, payload.tenant_id, payload.action_ids, ctx.job_id)
    with failing_at_last(ctx, fail), mailbox(payload) as (account, gmail):
        return label_page(account, gmail, payload.action_ids, job_id=ctx.job_id)
