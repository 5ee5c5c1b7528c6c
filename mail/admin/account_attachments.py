"""The operation that switches the reading of a mailbox's attachments."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest

from interfaces.admin.operations import OptionalReasonForm
from mail.admin.account_operations import MailboxOperation
from mail.conf import reads_attachments
from mail.models import MailAccount
from mail.services.documents.documents import set_reading
from tenants.models import Role


class AttachmentsForm(OptionalReasonForm):
    """Whether attachments are read."""

    read = forms.BooleanField(required=False, label="Read attachments of new mail")
    field_order = ["read", "reason"]

    def prepare(self, request: HttpRequest, row: MailAccount) -> None:
        """Set the current value."""
        super().prepare(request, row)
        self.initial["read"] = row.read_attachments


def attachments_text(account: MailAccount) -> str:
    """Return whether attachments are read, and whether the setting for all is off."""
    if not reads_attachments():
        return "Not read: READ_ATTACHMENTS is off for all mailboxes"
    return "Read" if account.read_attachments else "Not read"


ATTACHMENTS = MailboxOperation(
    name="attachments",
    label="Attachments",
    icon="attach_file",
    role=Role.VIEWER,
    for_owner=True,
    stand_in=Role.ADMIN,
    form=AttachmentsForm,
    effect="Search finds the text of attachments that are read. Text that was already read is "
    "kept.",
    seen=lambda account: str(account.read_attachments),
    perform=set_reading,
    report=lambda account: f"{account.address}: attachments: {attachments_text(account).lower()}.",
)
