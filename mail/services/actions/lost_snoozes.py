"""Brings back snoozed mail whose snooze was deleted with a mailbox's or a person's mail."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any
from uuid import UUID

from jobs.models import JobQueue
from jobs.states import IN_FLIGHT
from mail.conf import snooze_label
from mail.gmail.answers import pages
from mail.gmail.client import GmailClient
from mail.models import (
    UNFINISHED,
    Action,
    ActionType,
    Connection,
    EventType,
    MailAccount,
    Message,
)
from mail.services.mailboxes.modes import require_unpaused
from mail.services.queueing import request_lost_snoozes
from mail.services.syncing.labels import known_label_id, refresh_labels
from mail.services.timelines.events import record_event, record_events
from tenants.scope import all_firms, firm_scope

PAGE = 500


def wake_lost(account: MailAccount, gmail: GmailClient) -> dict[str, Any]:
    """Bring back messages with the label of snoozed mail but no snooze; return the job's result.

    Messages in the trash or in spam stay there.

    Raises:
        MailboxWaits: the mailbox is paused.
        GmailError: Gmail did not do it.
    """
    require_unpaused(account)
    # While the mailbox was disconnected, somebody may have deleted the label and made it again.
    refresh_labels(account, gmail)
    label_id = known_label_id(account, snooze_label())
    if label_id is None:
        return {"woken": 0}
    labelled, woken = _labelled(gmail, label_id), 0
    for start in range(0, len(labelled), PAGE):
        page = labelled[start : start + PAGE]
        # Read after Gmail's list: a snooze has its time before its message has the label, so a new
        # snooze is not taken for a lost one.
        asleep = _asleep(account, page)
        lost = [one for one in page if one not in asleep]
        if lost:
            gmail.batch_modify(lost, add=["INBOX"], remove=[label_id])
            _record_woken(account, lost)
        woken += len(lost)
    if woken:
        with firm_scope(account.firm_id):
            record_event(EventType.UNSNOOZED, account, detail={"messages": woken})
    return {"woken": woken}


def lose_snoozes(message_ids: Collection[UUID]) -> set[UUID]:
    """Have these messages brought back before they are deleted; return those not to delete yet.

    A message whose snooze is being executed is not to be deleted yet, because that job may hide the
    message after the lost snoozes were looked for. Must run in the firm's scope, in the transaction
    that deletes.
    """
    snoozes = Action.objects.filter(message_id__in=message_ids, action_type=ActionType.SNOOZE)
    # The lock lets no other snooze start; one that has started has its job in flight.
    rows = list(
        snoozes.select_for_update(of=("self",), no_key=True)
        .order_by("pk")
        .select_related("account")
    )
    under_way = {row.job_id: row.message_id for row in rows if row.status in UNFINISHED}
    in_flight = JobQueue.objects.filter(pk__in=under_way.keys() - {None}, status__in=IN_FLIGHT)
    busy = {under_way[job_id] for job_id in in_flight.values_list("pk", flat=True)}
    asleep = (row for row in rows if row.wake_at is not None and row.message_id not in busy)
    for account in {row.account for row in asleep}:
        request_lost_snoozes(account)
    return busy


def _record_woken(account: MailAccount, gmail_message_ids: Collection[str]) -> None:
    """Add the event to those of the messages that are stored again."""
    with firm_scope(account.firm_id):
        stored = Message.objects.filter(account=account, gmail_message_id__in=gmail_message_ids)
        about: list[tuple[Message, dict[str, Any]]] = [
            (one, {}) for one in stored.only("firm", "thread")
        ]
        record_events(EventType.UNSNOOZED, account, about)


def _labelled(gmail: GmailClient, label_id: str) -> list[str]:
    """Return all messages with the label, before any is changed: a change shifts the pages."""
    read = partial(gmail.list_messages, "", max_results=PAGE, label_id=label_id)
    return [message["id"] for page in pages(read) for message in page.get("messages", [])]


def _asleep(account: MailAccount, gmail_message_ids: Collection[str]) -> set[str]:
    """Return the messages that a snooze will bring back; another firm's snooze counts, too."""
    with all_firms("the same mailbox may be connected in another firm"):
        snoozes = Action.objects.filter(
            wake_at__isnull=False,
            account__address=account.address,
            message__gmail_message_id__in=gmail_message_ids,
        ).exclude(account__connection=Connection.DISCONNECTED)
        return set(snoozes.values_list("message__gmail_message_id", flat=True))
