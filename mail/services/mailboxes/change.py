"""Changes of a mailbox's settings, with an entry in the audit log, and what becomes of its work."""

from __future__ import annotations

from django.db.models import Q

from mail.models import (
    UNFINISHED,
    Action,
    ActionStatus,
    ActionType,
    Connection,
    MailAccount,
    Mode,
    OutboundMessage,
    OutboundStatus,
)
from mail.services.operation import audit, locked_ids
from mail.services.sending.outbound import database_identity
from mail.services.sending.send_outcome import end_send
from tenants.audit import Actor
from tenants.scope import all_firms

ACTIVE_ELSEWHERE = (
    "Mailroom writes to this mailbox for another firm: there it must be set to suggest only, or "
    "disconnected, first."
)


def change_mailbox(
    account: MailAccount, operation: str, *, by: Actor, reason: str, **values: object
) -> None:
    """Set these columns, and record their old and new values. Must run in the firm's scope."""
    before = {name: _plain(getattr(account, name)) for name in values}
    MailAccount.objects.filter(pk=account.pk).update(**values)
    for name, value in values.items():
        setattr(account, name, value)
    audit(
        operation,
        account,
        by,
        reason,
        before=before,
        after={name: _plain(value) for name, value in values.items()},
    )


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int) else str(value)


def is_active_elsewhere(account: MailAccount) -> bool:
    """Say whether Mailroom may write to this mailbox for another firm.

    Must run in a transaction: the answer holds until its end. A caller that changes the account's
    row before this call must call `lock_mailbox` first.
    """
    return any(
        row.mode == Mode.ACTIVE and row.connection != Connection.DISCONNECTED
        for row in lock_mailbox(account)
        if row.pk != account.pk
    )


def lock_mailbox(account: MailAccount) -> list[MailAccount]:
    """Lock and return the rows of the mailbox in every firm until the end of the transaction.

    Always in the same order, because two firms that lock their own row first would deadlock.
    """
    with all_firms("whether a mailbox is active in another firm"):
        rows = MailAccount.objects.filter(address=account.address).order_by("pk")
        # As in `locked_row`, rows that refer to these can still be inserted.
        return list(rows.select_for_update(of=("self",), no_key=True))


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
