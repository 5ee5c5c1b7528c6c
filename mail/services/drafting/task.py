"""What one drafting job is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from mail.gmail.client import GmailClient
from mail.gmail.mime import OUTBOUND_HEADER
from mail.models import Draft, DraftOrigin, EventType, MailAccount, MailThread, Message
from mail.rules.automated import automated_signal
from mail.services.mailboxes.accounts import own_addresses
from mail.services.sending.compose import stored_headers
from mail.services.timelines.events import record_event
from mail.text.parsed import Address

MOST_REWORKS = 3


@dataclass(frozen=True, kw_only=True)
class DraftTask:
    """An answer to be drafted: to which message, on whose word, and in place of what."""

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

    @property
    def rework_count(self) -> int:
        """How often the answer has been reworked, this time included."""
        return 0 if self.replaces is None else self.replaces.rework_count + 1


def why_not_answered(account: MailAccount, message: Message) -> str:
    """Return why the message gets no draft, empty for one that may have one.

    Nobody reads an answer to what a machine wrote, and two machines would go on for ever.
    """
    headers = stored_headers(message)
    if message.outgoing or message.sender_address.lower() in own_addresses(account):
        return "The message is the owner's own"
    if OUTBOUND_HEADER in headers:
        return "The message was sent by Mailroom"
    sender = Address(message.sender_name, message.sender_address)
    signal = automated_signal(sender, headers)
    if signal is not None:
        kind = signal.kind.value.replace("_", " ")
        return f"Nobody reads an answer: {kind}, by the header {signal.header}"
    return ""


def refuse(account: MailAccount, message: Message, reason: str) -> dict[str, Any]:
    """Keep why nothing is drafted, and return the job's result. Must run in the firm's scope."""
    record_event(EventType.DRAFT_REFUSED, account, message=message, detail={"reason": reason})
    return skipped(reason)


def skipped(reason: str) -> dict[str, Any]:
    """Return the result of a job that does nothing."""
    return {"skipped": True, "reason": reason}
