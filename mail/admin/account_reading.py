"""Operations in the admin on what is read of a mailbox: changes, labels, attachments; the watch."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest

from interfaces.admin.operations import OptionalReasonForm
from mail.admin.account_operations import MailboxOperation
from mail.conf import pubsub_topic, reads_attachments
from mail.models import Connection, MailAccount
from mail.services.documents.documents import set_reading
from mail.services.mailboxes import modes
from mail.services.syncing.watch import renew_watch_now
from tenants.models import Role


def _not_connected(account: MailAccount) -> str:
    if account.connection == Connection.CONNECTED:
        return ""
    return "The mailbox is not connected."


def _not_watchable(account: MailAccount) -> str:
    return _not_connected(account) if pubsub_topic() else "GMAIL_PUBSUB_TOPIC is not set."


SYNC_OPERATIONS = (
    MailboxOperation(
        name="sync",
        label="Sync now",
        icon="sync",
        variant="primary",
        form=OptionalReasonForm,
        effect="Reads what changed since the last sync.",
        obstacle=_not_connected,
        perform=modes.sync_now,
        report=lambda account: f"A sync of {account.address} is in the queue.",
    ),
    MailboxOperation(
        name="full-sync",
        label="Full sync",
        icon="sync_alt",
        form=OptionalReasonForm,
        effect="Reads what changed, and scans the mail of the last days for anything that was "
        "missed.",
        obstacle=_not_connected,
        perform=lambda account, **answers: modes.sync_now(account, force_full=True, **answers),
        report=lambda account: f"A full sync of {account.address} is in the queue.",
    ),
    MailboxOperation(
        name="sync-labels",
        label="Sync labels",
        icon="label",
        form=OptionalReasonForm,
        effect="Reads which labels the mailbox has. Rules that name a deleted label are disabled.",
        obstacle=_not_connected,
        perform=modes.sync_labels_now,
        report=lambda account: f"The labels of {account.address} will be read.",
    ),
    MailboxOperation(
        name="renew-watch",
        label="Renew watch",
        icon="notifications_active",
        form=OptionalReasonForm,
        effect="Has Gmail notify Mailroom of changes for another week.",
        obstacle=_not_watchable,
        perform=renew_watch_now,
        report=lambda account: f"The watch of {account.address} will be renewed.",
    ),
)


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
