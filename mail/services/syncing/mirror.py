"""Applies Gmail's label changes and deletions to the stored messages.

Code that stores what it read from Gmail compares the history cursor before the request with the
cursor afterwards, with the account locked. If a sync has moved it meanwhile, that sync may have
applied a newer change, so the answer is read again or dropped. If not, the next sync applies every
later change.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from mail.errors import MailboxDisconnected
from mail.gmail.answers import HistoryRecord, pages
from mail.gmail.client import GmailClient
from mail.models import Connection, MailAccount, MailThread, Message
from mail.services.drafting.follow import (
    follow_all_drafts,
    follow_deletions,
    follow_drafts,
    follow_labels,
)
from mail.services.rules.routing import hand_over
from mail.services.timelines.threads import refresh_threads
from tenants.scope import firm_scope

WATCHED_LABELS = frozenset({"INBOX", "SENT"})
# Messages with one of these labels are in no listing, whatever other labels they have.
HIDING_LABELS = frozenset({"TRASH", "SPAM"})
LISTED = 500
BATCH = 500


@dataclass
class MessageChange:
    """What happened to one message: labels gained (True) and lost (False), or its deletion."""

    labels: dict[str, bool] = field(default_factory=dict)
    deleted: bool = False
    arrived: bool = False
    gained: dict[str, int] = field(default_factory=dict)
    """The labels it gained and kept, each with the id of the last history record that names it."""
    lost: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The labels it gained and lost again, each with the ids of both records."""

    @property
    def enters(self) -> bool:
        """Whether it came into inbox or sent mail, which are read, or back from trash or spam."""
        watched = any(self.labels.get(label) for label in WATCHED_LABELS)
        shown = any(self.labels.get(label) is False for label in HIDING_LABELS)
        return not self.deleted and (self.arrived or watched or shown)

    @property
    def may_be_a_draft_gone(self) -> bool:
        """Whether it may have been a draft that was edited, sent or discarded."""
        return self.deleted or bool(self.labels.get("TRASH"))

    def applied_to(self, labels: Collection[str]) -> list[str]:
        """Return the labels after the change; those that it had keep their order."""
        kept = [label for label in labels if self.labels.get(label, True)]
        return kept + [one for one, has in self.labels.items() if has and one not in kept]


def cursor_of(account: MailAccount, *, lock: bool = False) -> int | None:
    """Return the account's stored cursor; with `lock`, nobody moves it before the transaction ends.

    Must run in the firm's scope.

    Raises:
        MailboxDisconnected: with `lock`; nothing may be stored, as the mail may be deleted
            already.
    """
    rows = MailAccount.objects.filter(pk=account.pk)
    found = (rows.select_for_update(no_key=True) if lock else rows).values_list(
        "history_cursor", "connection"
    )
    cursor: int | None
    cursor, connection = found[0]
    if lock and connection == Connection.DISCONNECTED:
        raise MailboxDisconnected(f"mailbox {account.pk} is disconnected")
    return cursor


def changes_in(records: Iterable[HistoryRecord]) -> dict[str, MessageChange]:
    """Return the changes of each message in these records, by Gmail's message id."""
    changes: dict[str, MessageChange] = defaultdict(MessageChange)
    for record in records:
        for one in record.get("messagesAdded", []):
            # Gmail does not always give the labels here; without them, the ingest decides.
            labels = set(one["message"].get("labelIds", WATCHED_LABELS))
            if labels & WATCHED_LABELS and "DRAFT" not in labels:
                changes[one["message"]["id"]].arrived = True
        for added in record.get("labelsAdded", []):
            change = changes[added["message"]["id"]]
            change.labels |= dict.fromkeys(added["labelIds"], True)
            change.gained |= dict.fromkeys(added["labelIds"], int(record["id"]))
            change.lost = {one: ids for one, ids in change.lost.items() if one not in change.gained}
        for removed in record.get("labelsRemoved", []):
            change = changes[removed["message"]["id"]]
            change.labels |= dict.fromkeys(removed["labelIds"], False)
            for label in removed["labelIds"]:
                if (gained := change.gained.pop(label, None)) is not None:
                    change.lost[label] = gained, int(record["id"])
        for one in record.get("messagesDeleted", []):
            changes[one["message"]["id"]].deleted = True
    return dict(changes)


def apply_changes(account: MailAccount, changes: Mapping[str, MessageChange]) -> None:
    """Apply the changes to stored messages; hand over those back in the inbox, obey labels.

    Must run in the firm's scope, with the account locked, in the transaction that moves the cursor.
    """
    gone: list[Message] = []
    changed: list[Message] = []
    returned: list[Message] = []
    for message in _stored(account, changes):
        change = changes[message.gmail_message_id]
        if change.deleted:
            gone.append(message)
            continue
        labels = change.applied_to(message.labels)
        if labels != message.labels:
            if "INBOX" in set(labels) - set(message.labels):
                returned.append(message)
            message.labels = labels
            changed.append(message)
    Message.objects.bulk_update(changed, ["labels"], batch_size=BATCH)
    _delete(gone)
    if returned:
        # Read whole, because routing rules need columns that are not loaded here.
        hand_over(account, list(Message.objects.filter(pk__in=[one.pk for one in returned])))
    there = {one: change for one, change in changes.items() if not change.deleted}
    follow_labels(
        account,
        {one: change.gained for one, change in there.items()},
        {one: change.lost for one, change in there.items()},
    )
    follow_drafts(account, [one for one, change in changes.items() if change.may_be_a_draft_gone])


def differences(account: MailAccount, gmail: GmailClient) -> dict[str, set[str] | None]:
    """Return the labels in Gmail of every stored message, None for a message that is gone.

    It is for a mailbox whose history was lost, because it lists the whole mailbox once for all
    messages and once for each label.
    """
    with firm_scope(account.firm_id):
        rows = Message.objects.filter(account=account)
        stored = set(rows.values_list("gmail_message_id", flat=True))
    if not stored:
        return {}
    labels: dict[str, set[str] | None] = dict.fromkeys(stored)
    for gmail_message_id in _listed(gmail, None):
        if gmail_message_id in stored:
            labels[gmail_message_id] = set()
    for label in gmail.list_labels():
        for gmail_message_id in _listed(gmail, label["id"]):
            carried = labels.get(gmail_message_id)
            if carried is not None:
                carried.add(label["id"])
    return labels


def apply_differences(account: MailAccount, labels: Mapping[str, set[str] | None]) -> None:
    """Apply `differences` to the stored messages; it has the same conditions as `apply_changes`."""
    changes = {}
    for message in _stored(account, labels):
        wanted = labels[message.gmail_message_id]
        change = MessageChange(deleted=wanted is None)
        if wanted is not None:
            change.labels = dict.fromkeys(sorted(wanted), True) | dict.fromkeys(
                set(message.labels) - wanted, False
            )
            change.gained = dict.fromkeys(wanted - set(message.labels), sys.maxsize)
        changes[message.gmail_message_id] = change
    apply_changes(account, changes)
    follow_all_drafts(account)


def _stored(account: MailAccount, ids: Collection[str]) -> Iterator[Message]:
    rows = Message.objects.filter(account=account)
    columns = ("firm", "account", "thread", "gmail_message_id", "labels")
    wanted = sorted(ids)
    for start in range(0, len(wanted), BATCH):
        part = wanted[start : start + BATCH]
        yield from rows.filter(gmail_message_id__in=part).only(*columns)


def _listed(gmail: GmailClient, label_id: str | None) -> Iterator[str]:
    read = partial(gmail.list_messages, "", max_results=LISTED, label_id=label_id, everywhere=True)
    for page in pages(read):
        yield from (message["id"] for message in page.get("messages", []))


def _delete(messages: Collection[Message]) -> None:
    """Delete messages with everything about them, and threads that have no message left."""
    if not messages:
        return
    follow_deletions(messages)
    threads = {message.thread_id for message in messages}
    Message.objects.filter(pk__in=[message.pk for message in messages]).delete()
    locked = MailThread.objects.select_for_update(no_key=True).filter(pk__in=threads).order_by("pk")
    refresh_threads(list(locked))
