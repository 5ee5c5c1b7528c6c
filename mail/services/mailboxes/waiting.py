"""Cancels the waiting actions and messages of a mailbox that may no longer be written to."""

from __future__ import annotations

from django.db.models import Q

from mail.models import (
    UNFINISHED,
    Action,
    ActionStatus,
    ActionType,
    EventType,
    MailAccount,
    OutboundMessage,
    OutboundStatus,
)
from mail.services.operation import locked_ids
from mail.services.sending.database_identity import database_identity
from mail.services.timelines.events import record_event


def cancel_waiting(account: MailAccount, why: str) -> None:
    """Cancel the mailbox's actions and messages that wait. Must run in the firm's scope.

    Their jobs cannot do that, because they may start only after writing is allowed again. A message
    whose draft is in Gmail may be sent already, as may one of a restored backup, so it needs a
    look; if its job sees that it was sent, the job stores that.
    """
    unsent = OutboundMessage.objects.filter(
        account=account, status__in=[OutboundStatus.QUEUED, OutboundStatus.SENDING]
    )
    # Locked, because a job may store its draft just now.
    waiting = OutboundMessage.objects.filter(pk__in=locked_ids(unsent))
    doubtful = list(
        waiting.select_related("message").filter(
            ~Q(gmail_draft_id="") | Q(in_doubt=True) | ~Q(database_id=database_identity())
        )
    )
    waiting.update(status=OutboundStatus.CANCELED, error=why)
    for outbound in doubtful:
        OutboundMessage.objects.filter(pk=outbound.pk).update(status=OutboundStatus.UNKNOWN)
        detail = {"outbound_id": str(outbound.pk), "kind": outbound.kind}
        record_event(EventType.SEND_UNKNOWN, account, message=outbound.message, detail=detail)
    # The actions of messages that need a look end when a person decides.
    unknown = Q(outbound__status=OutboundStatus.UNKNOWN)
    # An undo is done all the same, because a person asked for it.
    kept = unknown | Q(action_type=ActionType.UNDO)
    unfinished = Action.objects.filter(account=account, status__in=UNFINISHED).exclude(kept)
    Action.objects.filter(pk__in=locked_ids(unfinished)).update(
        status=ActionStatus.CANCELED, error=why
    )
