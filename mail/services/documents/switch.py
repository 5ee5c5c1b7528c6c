"""Whether a mailbox's attachments are read: its own switch, beside the setting for all."""

from __future__ import annotations

from mail.conf import reads_attachments
from mail.models import MailAccount
from mail.services.mailboxes.accounts import in_firm_scope
from tenants.audit import SERVICE, Actor, record_operation


def reads_attachments_of(account: MailAccount) -> bool:
    """Say whether attachments of the mailbox are fetched and read."""
    return account.read_attachments and reads_attachments()


@in_firm_scope
def set_reading(account: MailAccount, *, read: bool, reason: str = "", by: Actor = SERVICE) -> None:
    """Read attachments of new mail from now on, or none; what waits to be fetched is left alone then.

    With READ_ATTACHMENTS off none is read all the same.
    """
    before, account.read_attachments = account.read_attachments, read
    MailAccount.objects.filter(pk=account.pk).update(read_attachments=read)
    record_operation(
        by,
        "mailbox.read_attachments",
        firm_id=account.firm_id,
        target=("mailbox", account.pk),
        reason=reason,
        before={"read_attachments": before},
        after={"read_attachments": read},
    )
