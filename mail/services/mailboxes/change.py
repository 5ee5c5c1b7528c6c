"""Changes a mailbox's settings, with an entry in the audit log."""

from __future__ import annotations

from mail.models import MailAccount
from mail.services.operation import audit
from tenants.audit import Actor


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
