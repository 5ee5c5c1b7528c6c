"""Keeps a mailbox active in one firm only: two would fight over labels, and answer twice."""

from __future__ import annotations

from mail.models import Connection, MailAccount, Mode
from tenants.scope import all_firms

ACTIVE_ELSEWHERE = (
    "Mailroom writes to this mailbox for another firm: there it must be set to suggest only, or "
    "disconnected, first."
)


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
