"""Stores how the sending of a message ended, and the end of the action that sends it."""

from __future__ import annotations

from uuid import UUID

from django.db.models.functions import Now

from mail.gmail.answers import MessageReference
from mail.models import (
    MAX_ERROR_LENGTH,
    UNFINISHED,
    Action,
    ActionStatus,
    EventType,
    OutboundMessage,
    OutboundStatus,
)
from mail.services.actions.actions import fail_action
from mail.services.timelines.events import record_event
from tenants.scope import firm_scope

NOT_TOLD = "Gmail could not say whether it was sent"

_UNSENT = (OutboundStatus.QUEUED, OutboundStatus.SENDING, OutboundStatus.UNKNOWN)
_EVENTS = {
    OutboundStatus.SENT: EventType.SENT,
    OutboundStatus.FAILED: EventType.SEND_FAILED,
    OutboundStatus.UNKNOWN: EventType.SEND_UNKNOWN,
}


def complete_send(outbound: OutboundMessage, sent: MessageReference | None) -> None:
    """Mark the message sent, and its action completed; `sent` is None when a person says so."""
    gmail_id = sent["id"] if sent else ""
    with firm_scope(outbound.firm_id):
        unsent = OutboundMessage.objects.filter(pk=outbound.pk, status__in=_UNSENT)
        if not unsent.update(
            status=OutboundStatus.SENT, gmail_message_id=gmail_id, sent_at=Now(), error=""
        ):
            outbound.refresh_from_db(fields=["status"])
            return
        outbound.refresh_from_db(fields=["status", "gmail_message_id", "sent_at"])
        _complete_action(outbound)
        _record(outbound)


def end_send(outbound: OutboundMessage, status: OutboundStatus, error: str) -> None:
    """End an unsent message: canceled, failed or unknown. `error` holds no mail text."""
    with firm_scope(outbound.firm_id):
        unsent = OutboundMessage.objects.filter(
            pk=outbound.pk, status__in=[OutboundStatus.QUEUED, OutboundStatus.SENDING]
        )
        if not unsent.update(status=status, error=error[:MAX_ERROR_LENGTH]):
            outbound.refresh_from_db(fields=["status"])
            return
        outbound.status, outbound.error = status, error
        if outbound.action_id is not None:
            _end_action(outbound.firm_id, outbound.action_id, status, error)
        _record(outbound)


def fail_send(firm_id: int, outbound_id: UUID, error: str, *, canceled: bool) -> None:
    """End a message whose job will not be tried again: as unknown, if it may have been sent."""
    with firm_scope(firm_id):
        rows = OutboundMessage.objects.select_related("account", "message", "action")
        outbound = rows.filter(pk=outbound_id).first()
    if outbound is None:
        return
    if outbound.may_be_sent:
        end_send(outbound, OutboundStatus.UNKNOWN, f"{NOT_TOLD}: {error}")
    else:
        end_send(outbound, OutboundStatus.CANCELED if canceled else OutboundStatus.FAILED, error)


def _complete_action(outbound: OutboundMessage) -> None:
    hint = {
        "action": outbound.action.action_type if outbound.action else "",
        "inverse_action": "none",
        "inverse_parameters": {"add_labels": [], "remove_labels": []},
        "irreversible": True,
        "sent_message_id": outbound.gmail_message_id,
    }
    Action.objects.filter(pk=outbound.action_id, status__in=UNFINISHED).update(
        status=ActionStatus.COMPLETED, undo_hint=hint, executed_at=Now(), error=""
    )


def _end_action(firm_id: int, action_id: UUID, status: OutboundStatus, error: str) -> None:
    if status == OutboundStatus.FAILED:
        fail_action(firm_id, action_id, error)
    elif status == OutboundStatus.CANCELED:
        unfinished = Action.objects.filter(pk=action_id, status__in=UNFINISHED)
        unfinished.update(status=ActionStatus.CANCELED, error=error[:MAX_ERROR_LENGTH])


def _record(outbound: OutboundMessage) -> None:
    event = _EVENTS.get(OutboundStatus(outbound.status))
    if event is not None:
        detail = {"outbound_id": str(outbound.pk), "kind": outbound.kind}
        record_event(event, outbound.account, message=outbound.message, detail=detail)
