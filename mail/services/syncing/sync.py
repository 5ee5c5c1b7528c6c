"""Reads what has changed in a mailbox, and moves its history cursor.

New mail gets ingest jobs; label changes and deletions are applied to stored messages. A page's jobs
and changes are committed together with the cursor's move past it, and the cursor never goes back: a
crash at any point makes a sync repeat some reading, but loses nothing.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from django.db.models import F
from django.db.models.functions import Now

from mail.conf import sync_full_days
from mail.errors import MailboxWaits
from mail.gmail.answers import pages
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailHistoryExpired
from mail.labels import LABEL_NAMES
from mail.models import EventType, MailAccount, MailLabel, SyncStatus
from mail.services.drafting.follow import follow_labels
from mail.services.drafting.requests import OBEYED
from mail.services.queueing import enqueue_ingests, enqueue_next_page
from mail.services.syncing.mirror import (
    apply_changes,
    apply_differences,
    changes_in,
    cursor_of,
    differences,
)
from mail.services.timelines.events import record_event
from tenants.scope import firm_scope

PAGE_SIZE = 500
INBOX_AND_SENT = "{in:inbox in:sent}"
OWN_LABELS = [f'label:"{name}"' for name in LABEL_NAMES.values()]
OVERTAKEN_SECONDS = 1.0
_OVERTAKEN = "Another sync has read the mailbox meanwhile"


@dataclass(frozen=True)
class SyncReport:
    """What one sync read."""

    pages: int = 0
    listed: int = 0
    enqueued: int = 0
    full: bool = False

    def __add__(self, other: SyncReport) -> SyncReport:
        return SyncReport(
            self.pages + other.pages,
            self.listed + other.listed,
            self.enqueued + other.enqueued,
            self.full or other.full,
        )

    def as_result(self) -> dict[str, Any]:
        """Return the report as a job's result."""
        return asdict(self)


def sync_mailbox(
    account: MailAccount, gmail: GmailClient, *, force_full: bool = False
) -> SyncReport:
    """Enqueue and apply what changed since the cursor; without a cursor, scan the recent mail.

    `force_full` scans recent mail as well, for messages that slipped through. The history is read
    all the same, because a scan only finds recent mail.

    Raises:
        MailboxWaits: another sync has moved the cursor meanwhile.
    """
    cursor = _start(account)
    report = SyncReport()
    if cursor is not None:
        try:
            report = _read_history(account, gmail, cursor)
        except GmailHistoryExpired:
            _forget_cursor(account, cursor)
            cursor = None
    if cursor is None or force_full:
        report += _scan(account, gmail, seed_cursor=cursor is None)
    _finish(account)
    return report


def backfill_page(
    account: MailAccount,
    gmail: GmailClient,
    *,
    query: str | None,
    page_token: str | None,
    history_id: str,
) -> SyncReport:
    """Read one page of a backfill and enqueue the next one.

    `history_id` is the mailbox's at the start of the backfill, empty on the first page. If a
    backfill without a query ends in a mailbox without a cursor, `history_id` becomes its cursor.
    """
    if page_token is None:
        _start(account)
        history_id = gmail.profile()["historyId"]
    page = gmail.list_messages(query or INBOX_AND_SENT, page_token, max_results=PAGE_SIZE)
    found = [message["id"] for message in page.get("messages", [])]
    next_token = page.get("nextPageToken")
    seeds = query is None and not next_token and _has_no_cursor(account)
    # Stored messages may have changed while there was no cursor from which to read the history.
    found_out = differences(account, gmail) if seeds else {}
    with firm_scope(account.firm_id):
        enqueued = enqueue_ingests(account, found)
        if next_token:
            enqueue_next_page(account, query=query, page_token=next_token, history_id=history_id)
        elif seeds and cursor_of(account, lock=True) is None:
            apply_differences(account, found_out)
            _seed_cursor(account, int(history_id))
    return SyncReport(pages=1, listed=len(found), enqueued=enqueued, full=True)


def _start(account: MailAccount) -> int | None:
    """Start a new sync generation, and return the cursor to read from."""
    with firm_scope(account.firm_id):
        MailAccount.objects.filter(pk=account.pk).update(sync_generation=F("sync_generation") + 1)
        account.refresh_from_db(fields=["history_cursor", "sync_generation", "last_sync_at"])
    return account.history_cursor


def _finish(account: MailAccount) -> None:
    with firm_scope(account.firm_id):
        MailAccount.objects.filter(pk=account.pk).update(
            last_sync_at=Now(), sync_status=SyncStatus.NORMAL
        )


def _read_history(account: MailAccount, gmail: GmailClient, cursor: int) -> SyncReport:
    """Read the history since the cursor, page by page, and apply it.

    Raises:
        MailboxWaits: another sync, whose worker took this one for dead, has moved the cursor.
    """
    report = SyncReport()
    page_token: str | None = None
    stands = cursor
    while report.pages == 0 or page_token:
        # Gmail wants the same start for every page, even after the cursor was moved.
        page = gmail.history(str(cursor), page_token)
        page_token = page.get("nextPageToken")
        records = page.get("history", [])
        changes = changes_in(records)
        found = [one for one, change in changes.items() if change.enters]
        reached = [int(record["id"]) for record in records]
        if not page_token:
            reached.append(int(page["historyId"]))
        with firm_scope(account.firm_id):
            if cursor_of(account, lock=True) != stands:
                # The other sync may have applied changes that are newer than this page's.
                raise MailboxWaits(_OVERTAKEN, seconds=OVERTAKEN_SECONDS)
            apply_changes(account, changes)
            enqueued = enqueue_ingests(account, found)
            stands = max([stands, *reached])
            _advance_cursor(account, stands)
        report += SyncReport(pages=1, listed=len(found), enqueued=enqueued)
    return report


def _scan(account: MailAccount, gmail: GmailClient, *, seed_cursor: bool) -> SyncReport:
    # Read before listing, so that the next history read finds what arrives during the listing.
    history_id = int(gmail.profile()["historyId"])
    recent = _recent(account)
    with firm_scope(account.firm_id):
        MailAccount.objects.filter(pk=account.pk).update(sync_status=SyncStatus.BACKFILLING)
    report = SyncReport(full=True)
    found_out = differences(account, gmail) if seed_cursor else {}
    queries = [" ".join([recent, *(f"-{one}" for one in OWN_LABELS)])]
    orders: dict[str, dict[str, int]] = {}
    if found_out:
        # Messages that a person labelled while there was no history are not stored either.
        queries.append(f"{recent} {{{' '.join(OWN_LABELS)}}}")
        # Before the first sync, labels may be Mailroom's own, of mail that was deleted here.
        if account.last_sync_at is not None:
            orders = _unstored_orders(account, gmail, f"{recent} in:inbox", stored=found_out)
    for found, is_last in _pages(gmail, queries):
        with firm_scope(account.firm_id):
            enqueued = enqueue_ingests(account, found)
            if seed_cursor and is_last and cursor_of(account, lock=True) is None:
                apply_differences(account, found_out)
                follow_labels(account, orders)
                _seed_cursor(account, history_id)
        report += SyncReport(pages=1, listed=len(found), enqueued=enqueued)
    return report


def _unstored_orders(
    account: MailAccount, gmail: GmailClient, query: str, *, stored: Container[str]
) -> dict[str, dict[str, int]]:
    """Return the labels by which the person orders something on mail that is not stored.

    They are as `follow_labels` takes them, without records of the history, which was lost.
    """
    present = {label["id"] for label in gmail.list_labels()}
    with firm_scope(account.firm_id):
        own = MailLabel.objects.filter(account=account, key__in=list(OBEYED))
        label_ids = present.intersection(own.values_list("gmail_label_id", flat=True))
    orders: dict[str, dict[str, int]] = defaultdict(dict)
    for label_id in label_ids:
        for found, _ in _pages(gmail, [query], label_id):
            for gmail_message_id in found:
                if gmail_message_id not in stored:
                    orders[gmail_message_id][label_id] = sys.maxsize
    return orders


def _pages(
    gmail: GmailClient, queries: Sequence[str], label_id: str | None = None
) -> Iterator[tuple[list[str], bool]]:
    """Yield the ids on each page of these searches, and whether it is the last page of all."""
    for query in queries:
        read = partial(gmail.list_messages, query, max_results=PAGE_SIZE, label_id=label_id)
        for page in pages(read):
            found = [message["id"] for message in page.get("messages", [])]
            yield found, not page.get("nextPageToken") and query == queries[-1]


def _recent(account: MailAccount) -> str:
    """Return the search for recent mail.

    It reaches back to the last sync if that is longer ago than the setting says.
    """
    days = sync_full_days()
    if account.last_sync_at is not None:
        away = datetime.now(UTC) - account.last_sync_at
        days = max(days, (away + timedelta(days=1)).days)
    return f"{INBOX_AND_SENT} newer_than:{days}d"


def _advance_cursor(account: MailAccount, history_id: int) -> None:
    """Move the cursor forward; a cursor that is further already stays."""
    MailAccount.objects.filter(pk=account.pk, history_cursor__lt=history_id).update(
        history_cursor=history_id
    )


def _has_no_cursor(account: MailAccount) -> bool:
    with firm_scope(account.firm_id):
        return cursor_of(account) is None


def _seed_cursor(account: MailAccount, history_id: int) -> None:
    """Give a mailbox without a cursor its first one.

    An existing cursor stays, because a listing may lack what the history before it still holds.
    """
    MailAccount.objects.filter(pk=account.pk, history_cursor=None).update(
        history_cursor=history_id, sync_status=SyncStatus.NORMAL, last_sync_at=Now()
    )


def _forget_cursor(account: MailAccount, expired: int) -> None:
    with firm_scope(account.firm_id):
        MailAccount.objects.filter(pk=account.pk, history_cursor=expired).update(
            history_cursor=None, sync_status=SyncStatus.NEEDS_BACKFILL
        )
        record_event(EventType.HISTORY_EXPIRED, account, detail={"cursor": expired})
