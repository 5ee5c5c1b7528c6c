"""E-mails to people about their mailboxes."""

from __future__ import annotations

from uuid import UUID

from jobs.execution.context import JobContext
from jobs.operations.escalation import escalation_recipients
from jobs.operations.notifications.emails import send_email
from mail.models import Connection, MailAccount
from mail.services.mailboxes.accounts import has_owner
from tenants.models import Firm
from tenants.scope import firm_scope

EVENT = "reauth"
# A path below the web process's address, because resolving the URL would load every page here.
PAGE = "/admin/mail/mailaccount/{}/change/"


def send_reauth_notice(ctx: JobContext, account_id: UUID) -> int:
    """Ask the owner and the firm's admins to connect the mailbox again; return how many were asked."""
    with firm_scope(ctx.firm):
        account = (
            MailAccount.objects.filter(pk=account_id, connection=Connection.NEEDS_REAUTH)
            .select_related("owner")
            .first()
        )
        if account is None:
            return 0
        admins = escalation_recipients(ctx.firm_id, None)
        # The owner is asked first, because nobody else can sign in to Google for this mailbox.
        owner = account.owner if has_owner(account) else None
        recipients = list(dict.fromkeys([*escalation_recipients(ctx.firm_id, owner), *admins]))
    if recipients:
        subject = "[Mailroom] Connect a mailbox again"
        send_email(ctx, recipients, subject, _reauth_body(ctx.firm, account), event=EVENT)
    return len(recipients)


def _reauth_body(firm: Firm, account: MailAccount) -> str:
    return (
        f"Google no longer lets Mailroom into {account.address}, a mailbox of {firm.name}.\n\n"
        "Nothing is lost: the mailbox's jobs wait, and continue when somebody connects it again.\n\n"
        f"Its page:   {PAGE.format(account.pk)}\n"
    )
