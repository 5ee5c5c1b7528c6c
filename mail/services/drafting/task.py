"""Describes one drafting job, and decides whether a message may be answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jobs.models.base import id_at
from mail.gmail.client import GmailClient
from mail.gmail.mime import OUTBOUND_HEADER
from mail.labels import LabelKey
from mail.models import Draft, DraftOrigin, EventType, MailAccount, MailThread, Message
from mail.rules.automated import AutomatedKind, automated_signal, is_auto_submitted
from mail.services.mailboxes.accounts import own_addresses
from mail.services.sending.compose import answered_addresses, stored_headers
from mail.services.timelines.correspondents import MOST_OF_A_THREAD, of_same_correspondent
from mail.services.timelines.events import record_event
from mail.services.timelines.threads import is_discarded, newest_first
from mail.text.parsed import Address

MOST_REWORKS = 3


@dataclass(frozen=True, kw_only=True)
class DraftTask:
    """An answer to be drafted: to which message, on whose order, and instead of which draft."""

    account: MailAccount
    gmail: GmailClient
    thread: MailThread
    message: Message
    origin: DraftOrigin
    job_id: UUID
    is_last_attempt: bool = False
    instruction: str = ""
    current_text: str = ""
    replaces: Draft | None = None
    newest_id: UUID | None = None
    """The thread's newest message when a person asked for the answer."""

    @property
    def rework_count(self) -> int:
        """How often the answer has been reworked, this time included."""
        return 0 if self.replaces is None else self.replaces.rework_count + 1


def why_not_answered(account: MailAccount, message: Message) -> str:
    """Return why the message gets no draft, empty if it may have one.

    A machine's mail gets none, because nobody reads the answer, or two machines answer each other.
    """
    headers, recipients = stored_headers(message), recipients_of(account, message)
    if message.outgoing or any(one.key in own_addresses(account) for one in recipients):
        return "The message is the owner's own"
    if is_discarded(message):
        return "The message is in the trash or among spam"
    if OUTBOUND_HEADER in headers:
        return "The message was sent by Mailroom"
    sender = Address(message.sender_name, message.sender_address)
    for name, address in (("From", sender), *(("Reply-To", one) for one in recipients)):
        signal = automated_signal(address, headers)
        if signal is not None:
            kind = signal.kind.value.replace("_", " ")
            header = name if signal.kind == AutomatedKind.ROBOT_SENDER else signal.header
            return f"Nobody reads an answer: {kind}, by the header {header}"
    return ""


def is_answered_since(account: MailAccount, message: Message, job_id: UUID) -> bool:
    """Say whether the person has answered the message's writer since this job was asked for.

    Must run in the firm's scope.
    """
    columns = ("outgoing", "internal_date", "sender_address", "sender_name", "headers", "to", "cc")
    thread = newest_first(message.thread).only(*columns)[:MOST_OF_A_THREAD]
    theirs = of_same_correspondent(message, thread, own_addresses(account))
    # A job's id tells when the job was stored.
    return any(
        one.outgoing
        and id_at(one.internal_date) > job_id
        and not is_auto_submitted(stored_headers(one))
        for one in theirs
    )


def recipients_of(account: MailAccount, message: Message) -> tuple[Address, ...]:
    """Return to whom a draft that answers the message is addressed.

    As in Gmail, the owner is left out of Reply-To; if nobody else is in it, the sender is
    addressed.
    """
    own = own_addresses(account)
    others = tuple(one for one in answered_addresses(message) if one.key not in own)
    return others or (Address(message.sender_name, message.sender_address),)


def refuse(account: MailAccount, message: Message, reason: str) -> dict[str, Any]:
    """Record why nothing is drafted, and return the job's result. Must run in the firm's scope."""
    record_event(EventType.DRAFT_REFUSED, account, message=message, detail={"reason": reason})
    return skipped(reason)


def skipped(reason: str) -> dict[str, Any]:
    """Return the result of a job that does nothing."""
    return {"skipped": True, "reason": reason}


def drafted(draft: Draft) -> dict[str, Any]:
    """Return the result of a job that has written this draft."""
    return {"draft_id": str(draft.pk), "source": draft.source, "rework_count": draft.rework_count}


def label_beside(draft: Draft) -> LabelKey:
    """Return the label of a thread that holds this draft."""
    return LabelKey.ACTION_REQUIRED if draft.rework_count >= MOST_REWORKS else LabelKey.OUTBOX


def event_detail(draft: Draft) -> dict[str, Any]:
    """Return the facts that an event keeps of the draft."""
    return {
        "draft_id": str(draft.pk),
        "source": draft.source,
        "rework_count": draft.rework_count,
    }
