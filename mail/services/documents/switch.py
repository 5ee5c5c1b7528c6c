"""Decides whether a mailbox's attachments are read: by its own switch and READ_ATTACHMENTS."""

from __future__ import annotations

from mail.conf import reads_attachments
from mail.models import MailAccount
from mail.services.mailboxes.accounts import in_firm_scope
from mail.services.mailboxes.change import change_mailbox
from tenants.audit import SERVICE, Actor


def reads_attachments_of(account: MailAccount) -> bool:
    """Say whether attachments of the mailbox are fetched and read."""
    return account.read_attachments and reads_attachments()


@in_firm_scope
def set_reading(account: MailAccount, *, read: bool, reason: str = "", by: Actor = SERVICE) -> None:
    """Switch the reading of new mail's attachments; off, those that wait are not fetched either.

    With READ_ATTACHMENTS off, none is read in any case.
    """
    change_mailbox(account, "mailbox.read_attachments", by=by, reason=reason, read_attachments=read)
