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


def cancel_waiting(account: MailAccount, why: str) -> None:
    """Cancel the mailbox's actions and messages that wait. Must run in the firm's scope.

    Their jobs cannot do that, because they may start only after writing is allowed again.
    """
    waiting = OutboundMessage.objects.filter(account=account, status=OutboundStatus.QUEUED)
    # A message that waits to be sent again may have been sent before.
    may_be_sent = ~Q(gmail_draft_id="") | Q(in_doubt=True)
    waiting.filter(may_be_sent).update(status=OutboundStatus.UNKNOWN, error=why)
    waiting.exclude(may_be_sent).update(status=OutboundStatus.CANCELED, error=why)
    # A message that is being sent may be sent already: its job stores the outcome.
    sending = Q(outbound__status__in=[OutboundStatus.SENDING, OutboundStatus.UNKNOWN])
    # An undo is done all the same, because a person asked for it.
    kept = sending | Q(action_type=ActionType.UNDO)
    unfinished = Action.objects.filter(account=account, status__in=UNFINISHED).exclude(kept)
    Action.objects.filter(pk__in=locked_ids(unfinished)).update(
        status=ActionStatus.CANCELED, error=why
    )
