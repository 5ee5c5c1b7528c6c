"""What a message is like in Gmail just before Mailroom changes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from uuid import UUID

from mail.gmail.answers import Message, MessageReference
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailError, GmailHistoryExpired, GmailUnavailable
from mail.models import Action, ActionLink, ActionStatus, MailAccount, Relation
from mail.services.actions.actions import forget_attempt
from mail.services.actions.label_changes import LabelChange, MessageState, changed_labels
from mail.services.actions.since_asked import ASKED_AT, SeenChanges, own_changes_since
from mail.services.syncing.mirror import cursor_of
from tenants.scope import firm_scope

# A mailbox with more changes than these pages hold counts as one whose history is gone.
MAX_HISTORY_PAGES = 50
INBOX = frozenset({"INBOX"})
TRASH = frozenset({"TRASH"})
# A message that somebody moved there is neither snoozed nor brought back to the inbox.
ELSEWHERE = TRASH | {"SPAM"}


def read_state(account: MailAccount, gmail: GmailClient, gmail_message_id: str) -> MessageState:
    """Return the message's state in Gmail now."""
    with firm_scope(account.firm_id):
        cursor = cursor_of(account)
    return state_of(gmail.get_message(gmail_message_id, fmt="minimal"), cursor)


def state_of(message: Message, cursor: int | None) -> MessageState:
    """Return the state that Gmail's answer shows; `cursor` was read before the request."""
    # Gmail may have forgotten the history id of a message that has not changed for long.
    changed_at = int(message.get("historyId", 0))
    history_id = max(changed_at, cursor or 0)
    return MessageState(labels_of(message), history_id or None, cursor, changed_at)


def labels_of(message: MessageReference) -> list[str]:
    """Return the ids of a message's labels."""
    # Gmail leaves the field out when a message carries none.
    return sorted(message.get("labelIds", []))


@contextmanager
def attempt(*actions: Action) -> Iterator[None]:
    """Wrap one write to Gmail: a refused one changed nothing, so the attempt is forgotten."""
    try:
        yield
    except GmailUnavailable:
        raise
    except GmailError:
        for action in actions:
            forget_attempt(action)
        raise


def label_changes_since(
    gmail: GmailClient, gmail_message_id: str, history_id: int | None
) -> SeenChanges | None:
    """Return how often each label of the message changed since then; None if Gmail cannot say."""
    if history_id is None:
        return None
    changes = SeenChanges()
    page_token: str | None = None
    try:
        for _ in range(MAX_HISTORY_PAGES):
            page = gmail.history(str(history_id), page_token)
            for record in page.get("history", []):
                for seen, listed in (
                    (changes.added, record.get("labelsAdded", [])),
                    (changes.removed, record.get("labelsRemoved", [])),
                ):
                    for change in listed:
                        if change["message"]["id"] == gmail_message_id:
                            seen.update(set(change["labelIds"]))
            page_token = page.get("nextPageToken")
            if not page_token:
                return changes
    except GmailHistoryExpired:
        pass
    return None


def left_to_do(
    gmail: GmailClient, action: Action, state: MessageState, possible: LabelChange
) -> LabelChange:
    """Return the part of `possible` that this attempt may still change.

    What somebody has changed the other way since the action was asked for is left alone. An earlier
    attempt, whose answer was lost, may have taken effect: if a label has changed since and is again
    as before, somebody has put it back, so it is left alone, too.
    """
    needed = possible.needed(state.labels)
    if not needed:
        return possible
    touched = _changed_back(gmail, action, state, needed)
    if action.pre_image is not None:
        message_id = action.message.gmail_message_id
        seen = label_changes_since(gmail, message_id, (action.undo_hint or {}).get("history_id"))
        touched |= {label for label in needed.labels if seen and seen.count(label)}
    return possible.without(touched)


def _changed_back(
    gmail: GmailClient, action: Action, state: MessageState, needed: LabelChange
) -> set[str]:
    """Return the labels that others changed the other way since the action was asked for.

    Gmail is asked for its history only if the message has changed since.
    """
    asked_at = (action.undo_hint or {}).get(ASKED_AT)
    if asked_at is None or (state.changed_at or 0) <= asked_at:
        return set()
    seen = label_changes_since(gmail, action.message.gmail_message_id, asked_at)
    if seen is None:
        return set()
    touched = seen.against(needed, own_changes_since(action, asked_at))
    # Whoever put the message into the inbox does not want it in the trash.
    return touched | TRASH if "INBOX" in touched and needed.add & TRASH else touched


def changed_by_others(
    gmail: GmailClient, original: Action, labels: Iterable[str]
) -> frozenset[str]:
    """Return which of the labels somebody has changed since the action.

    A later action of Mailroom's that was undone does not count, nor does its undo. If Gmail's
    history does not reach back to the action, changes that people made are not known.
    """
    hint = original.undo_hint or {}
    later = _later_changes(original)
    message_id = original.message.gmail_message_id
    seen = label_changes_since(gmail, message_id, hint.get("history_id"))
    changed = changed_labels(hint).labels
    touched = set()
    for label in labels:
        ours = [(action, undone_by) for action, undone_by, its in later if label in its]
        actions = {action for action, _ in ours}
        # An action and its undo together leave the label as it was.
        standing = [one for one, undone_by in ours if undone_by not in actions]
        undos = {undone_by for _, undone_by in ours if undone_by in actions}
        by_people = seen is not None and seen.count(label) > len(ours) + (label in changed)
        if by_people or any(one not in undos for one in standing):
            touched.add(label)
    return frozenset(touched)


def _later_changes(original: Action) -> list[tuple[UUID, UUID | None, frozenset[str]]]:
    """Return later actions on the message: id, id of the undo that counts, labels changed."""
    with firm_scope(original.firm_id):
        rows = Action.objects.filter(
            message_id=original.message_id,
            status=ActionStatus.COMPLETED,
            executed_at__gte=original.executed_at,
        ).exclude(pk=original.pk)
        # If the database's clock ticks slowly, two actions may have the same time.
        later = [
            row for row in rows if (row.executed_at, row.pk) > (original.executed_at, original.pk)
        ]
        undos = dict(
            ActionLink.objects.filter(
                effect__in=[row.pk for row in later], relation=Relation.UNDO_OF, counts=True
            ).values_list("effect_id", "cause_id")
        )
    return [
        (row.pk, undos.get(row.pk), changed_labels(row.undo_hint or {}).labels) for row in later
    ]
