"""Cancels the waiting actions and messages of a mailbox that may no longer be written to."""

from __future__ import annotations

from django.db.models import Q

from mail.models import (
    UNFINISHED,
    Action,
    ActionStatus,
    ActionType,
    MailAccount,
    OutboundMessage,
    OutboundStatus,
)
from mail.services.operation import locked_ids
from mail.services.sending.database_identity import database_identity
from mail.services.sending.send_outcome import end_send


def cancel_waiting(account: MailAccount, why: str) -> None:
    """Cancel the mailbox's actions and messages that wait. Must run in the firm's scope.

    Their jobs cannot do that, because they may start only after writing is allowed again. A message
    whose draft is in Gmail may be sent already, as may one of a restored backup, so it needs a
    look; if its job sees that it was sent, the job stores that.
    """
    unsent = OutboundMessage.objects.filter(
        account=account, status__in=[OutboundStatus.QUEUED, OutboundStatus.SENDING]
    )
    unfinished = Action.objects.filter(account=account, status__in=UNFINISHED)
    # Messages first, because a job may store a draft just now; then all actions at once, in order.
    waiting = OutboundMessage.objects.filter(pk__in=locked_ids(unsent))
    locked_ids(unfinished)
    here = database_identity()
    for outbound in waiting.select_related("account", "message"):
        may_be_sent = outbound.may_be_sent or outbound.database_id != here
        end_send(outbound, OutboundStatus.UNKNOWN if may_be_sent else OutboundStatus.CANCELED, why)
    # The actions of messages that need a look end when a person decides.
    unknown = Q(outbound__status=OutboundStatus.UNKNOWN)
    # An undo is done all the same, because a person asked for it.
    kept = unknown | Q(action_type=ActionType.UNDO)
    unfinished.exclude(kept).update(status=ActionStatus.CANCELED, error=why)
