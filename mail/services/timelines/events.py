"""Records what happened to mail."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from interfaces.correlation import current_correlation_id
from mail.models import EventType, MailAccount, MailEvent, Message

# Details that only readers of the mailbox may see, because its labels reveal much.
LABEL_CHANGES = ("labels_added", "labels_removed")


def record_event(
    event_type: EventType,
    account: MailAccount,
    *,
    message: Message | None = None,
    detail: dict[str, Any] | None = None,
) -> None:
    """Add an event in the scope's transaction; `detail` holds no mail text."""
    MailEvent.objects.create(
        firm_id=account.firm_id,
        account_id=account.pk,
        thread_id=message.thread_id if message is not None else None,
        message_id=message.pk if message is not None else None,
        event_type=event_type,
        detail=detail or {},
        correlation_id=current_correlation_id() or "",
    )


def record_events(
    event_type: EventType, account: MailAccount, about: Iterable[tuple[Message, dict[str, Any]]]
) -> None:
    """Add an event for each message, as `record_event` does for one."""
    correlation_id = current_correlation_id() or ""
    MailEvent.objects.bulk_create(
        [
            MailEvent(
                firm_id=account.firm_id,
                account_id=account.pk,
                thread_id=message.thread_id,
                message_id=message.pk,
                event_type=event_type,
                detail=detail,
                correlation_id=correlation_id,
            )
            for message, detail in about
        ]
    )


def open_detail(event: MailEvent) -> dict[str, Any]:
    """Return the part of an event's detail that every member of the firm may see."""
    return {key: value for key, value in event.detail.items() if key not in LABEL_CHANGES}
