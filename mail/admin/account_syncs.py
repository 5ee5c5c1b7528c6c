"""Operations that read from Gmail in the admin: changes, recent mail, labels; and the watch."""

from __future__ import annotations

from interfaces.admin.operations import OptionalReasonForm
from mail.admin.account_operations import MailboxOperation
from mail.conf import pubsub_topic
from mail.models import Connection, MailAccount
from mail.services.mailboxes import modes
from mail.services.syncing.watch import renew_watch_now


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
