"""Look for new mail: `sync`, `history.sync.gmail`, `backfill.gmail`, `watch.renew.gmail`."""

from __future__ import annotations

import re
from typing import Any

from pydantic import field_validator

from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.schedules.defaults import default_schedule
from jobs.states import Category
from mail.conf import (
    sync_fallback_interval_seconds,
    sync_full_interval_seconds,
    uses_google,
    watch_renew_interval_seconds,
)
from mail.gmail import units
from mail.job_handlers.base import GMAIL_BREAKER, GMAIL_RETRY, AccountPayload, mailbox, mailbox_key
from mail.services.mailboxes.accounts import refresh_aliases
from mail.services.mailboxes.connection import pace_mailboxes
from mail.services.mailboxes.modes import follow_pause_label
from mail.services.mailboxes.schedule_targets import MAILBOXES
from mail.services.queueing import SYNC_PRIORITY, WATCH_TYPE, sync_lock
from mail.services.syncing.sync import backfill_page, sync_mailbox
from mail.services.syncing.watch import renew_watch, warn_of_lapse
from tenants.scope import firm_scope

# A sync reads the history and the pause label; a scan also lists a few pages, each for a read's
# units.
HISTORY_UNITS = 3
SCAN_UNITS = HISTORY_UNITS + 3 * units.READ

# The search operators that a backfill's query may use.
_OPERATORS = ("in:", "label:", "after:", "before:", "newer_than:", "older_than:")
_TIME_OR_PLACE = re.compile(rf"[-{{]?(?:{'|'.join(_OPERATORS)})[\w/-]+}}?", re.IGNORECASE)


class HistorySyncPayload(AccountPayload):
    """`history_id` is what Gmail's notification named; empty for a sync of our own accord."""

    history_id: str = ""


class SyncPayload(HistorySyncPayload):
    """`force_full` scans recent mail besides reading the history."""

    force_full: bool = False


class BackfillPayload(AccountPayload):
    """One page of a search; no query means all inbox and sent mail.

    `history_id` is the mailbox's when the first page was read.
    """

    page_token: str | None = None
    query: str | None = None
    history_id: str = ""

    @field_validator("query")
    @classmethod
    def check_query(cls, query: str | None) -> str | None:
        """Refuse terms about mail's content, because not all who may enqueue jobs may read mail."""
        for term in (query or "").split():
            if not _TIME_OR_PLACE.fullmatch(term):
                raise ValueError(
                    f"{term!r} is not about when or where: use {', '.join(_OPERATORS)}"
                )
        return query


@job(
    "sync",
    category=Category.SYNC,
    payload=SyncPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=lambda payload: SCAN_UNITS if payload.force_full else HISTORY_UNITS,
    breaker=GMAIL_BREAKER,
    lock_key=lambda payload: sync_lock(payload.account_id),
)
def sync(payload: SyncPayload, _: JobContext) -> dict[str, Any]:
    """Enqueue what is new in the mailbox."""
    with mailbox(payload) as (account, gmail):
        warn_of_lapse(account)
        follow_pause_label(account, gmail)
        if payload.force_full:
            refresh_aliases(account, gmail)
            if uses_google():
                with firm_scope(account.firm_id):
                    pace_mailboxes(account.firm_id)
        return sync_mailbox(account, gmail, force_full=payload.force_full).as_result()


default_schedule(
    "Sync mailboxes",
    "sync",
    every_seconds=sync_fallback_interval_seconds,
    group_name=MAILBOXES,
    priority=SYNC_PRIORITY,
)
default_schedule(
    "Scan mailboxes in full",
    "sync",
    every_seconds=sync_full_interval_seconds,
    group_name=MAILBOXES,
    payload={"force_full": True},
    priority=SYNC_PRIORITY,
)


@job(
    "history.sync.gmail",
    category=Category.SYNC,
    payload=HistorySyncPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=HISTORY_UNITS,
    breaker=GMAIL_BREAKER,
    lock_key=lambda payload: sync_lock(payload.account_id),
)
def history_sync(payload: HistorySyncPayload, _: JobContext) -> dict[str, Any]:
    """Enqueue what is new in the mailbox, after a notification."""
    with mailbox(payload) as (account, gmail):
        follow_pause_label(account, gmail)
        return sync_mailbox(account, gmail).as_result()


@job(
    "backfill.gmail",
    category=Category.INGESTION,
    payload=BackfillPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=units.READ,
    breaker=GMAIL_BREAKER,
    lock_key=lambda payload: sync_lock(payload.account_id),
)
def backfill(payload: BackfillPayload, _: JobContext) -> dict[str, Any]:
    """Enqueue one page of older mail, and the next page's job."""
    with mailbox(payload) as (account, gmail):
        return backfill_page(
            account,
            gmail,
            query=payload.query,
            page_token=payload.page_token,
            history_id=payload.history_id,
        ).as_result()


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
