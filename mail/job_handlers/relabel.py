"""`activate.gmail` and `relabel.gmail`: show decisions in Gmail that could not be shown before."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.states import Category
from mail.gmail import units
from mail.job_handlers.base import (
    GMAIL_BREAKER,
    GMAIL_RETRY,
    AccountPayload,
    mailbox,
    mailbox_key,
)
from mail.labels import PAUSE_LABEL
from mail.services.deciding.show_decision import show_decision
from mail.services.drafting.requests import enqueue_missed_withdrawals
from mail.services.mailboxes.modes import SUGGESTS_ONLY, suggests_only, threads_to_label
from mail.services.queueing import enqueue_relabels, request_watch, thread_lock
from mail.services.syncing.labels import ensure_label, ensure_own_labels
from tenants.scope import firm_scope


class ThreadPayload(AccountPayload):
    """A thread by our id."""

    thread_id: UUID


@job(
    "activate.gmail",
    category=Category.ORCHESTRATION,
    payload=AccountPayload,
    retry=GMAIL_RETRY,
    breaker=GMAIL_BREAKER,
    limit_key=mailbox_key,
    limit_units=10 * units.MODIFY,
    idempotency_key=lambda payload: f"activate.gmail:{payload.account_id}",
)
def activate(payload: AccountPayload, ctx: JobContext) -> dict[str, Any]:
    """Make Mailroom's labels, have the decisions on mail of the last days shown, and drafts withdrawn."""
    with mailbox(payload) as (account, gmail):
        if suggests_only(account):
            return {"skipped": True, "reason": SUGGESTS_ONLY}
        ensure_own_labels(account, gmail)
        ensure_label(account, gmail, PAUSE_LABEL)
        with firm_scope(account.firm_id):
            # The watch does not cover the labels that were just created, so it is requested again.
            request_watch(account)
            enqueue_missed_withdrawals(account)
            return {"threads": enqueue_relabels(threads_to_label(account), ctx.job_id)}


@job(
    "relabel.gmail",
    category=Category.ORCHESTRATION,
    payload=ThreadPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    lock_key=lambda payload: thread_lock(payload.thread_id),
    idempotency_key=lambda p: f"relabel.gmail:{p.account_id}:{p.thread_id}",
)
def relabel(payload: ThreadPayload, _: JobContext) -> dict[str, Any]:
    """Request the labels that show the thread's last decision."""
    with mailbox(payload) as (account, _gmail):
        return show_decision(account, payload.thread_id)
