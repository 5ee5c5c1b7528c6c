"""What a message is like in Gmail just before Mailroom changes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mail.gmail.answers import Message, MessageReference
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailError, GmailHistoryExpired, GmailUnavailable
from mail.models import Action, MailAccount
from mail.services.actions import forget_attempt
from mail.services.mirror import cursor_of
from tenants.scope import firm_scope

# A mailbox with more changes than these pages hold counts as one whose history is gone.
MAX_HISTORY_PAGES = 50


@dataclass(frozen=True)
class MessageState:
    """A message's labels, and how far the mailbox's history is known to be behind them.

    `cursor` is the account's at that time.
    """

    labels: list[str]
    history_id: int | None
    cursor: int | None


def read_state(account: MailAccount, gmail: GmailClient, gmail_message_id: str) -> MessageState:
    """Return the message as it is now."""
    with firm_scope(account.firm_id):
        cursor = cursor_of(account)
    return state_of(gmail.get_message(gmail_message_id, fmt="minimal"), cursor)


def state_of(message: Message, cursor: int | None) -> MessageState:
    """Return the state in Gmail's answer; `cursor` was read before it was asked for."""
    # A message that has long been as it is names an id that Gmail may have forgotten.
    history_id = max(int(message.get("historyId", 0)), cursor or 0)
    return MessageState(labels_of(message), history_id or None, cursor)


def labels_of(message: MessageReference) -> list[str]:
    """Return the ids of a message's labels."""
    # Gmail leaves the field out when a message carries none.
    return sorted(message.get("labelIds", []))


@contextmanager
def attempt(*actions: Action) -> Iterator[None]:
    """Make one write to Gmail inside: a refusal leaves no doubt that nothing was changed."""
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
) -> Counter[str] | None:
    """Return how often each label of the message has changed since; None when Gmail cannot say."""
    if history_id is None:
        return None
    changes: Counter[str] = Counter()
    page_token: str | None = None
    try:
        for _ in range(MAX_HISTORY_PAGES):
            page = gmail.history(str(history_id), page_token)
            for record in page.get("history", []):
                for change in record.get("labelsAdded", []) + record.get("labelsRemoved", []):
                    if change["message"]["id"] == gmail_message_id:
                        changes.update(set(change["labelIds"]))
            page_token = page.get("nextPageToken")
            if not page_token:
                return changes
    except GmailHistoryExpired:
        pass
    return None
