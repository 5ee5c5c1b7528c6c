"""Changes what people set of a mailbox, with an entry in the audit log."""

from __future__ import annotations

from mail.models import MailAccount
from tenants.audit import Actor, record_operation


def change_mailbox(
    account: MailAccount, operation: str, *, by: Actor, reason: str, **values: object
) -> None:
    """Set these columns, and record what they were and are. Must run in the firm's scope."""
    before = {name: _plain(getattr(account, name)) for name in values}
    MailAccount.objects.filter(pk=account.pk).update(**values)
    for name, value in values.items():
        setattr(account, name, value)
    record_operation(
        by,
        operation,
        firm_id=account.firm_id,
        target=("mailbox", account.pk),
        reason=reason,
        before=before,
        after={name: _plain(value) for name, value in values.items()},
    )


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int) else str(value)
