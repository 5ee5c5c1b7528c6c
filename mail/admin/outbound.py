"""Outbound messages in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import display

from interfaces.admin.base import code_block, column
from interfaces.admin.operations import Operation, OptionalReasonForm
from jobs.admin.base import age_column
from mail.admin.account_operations import MailboxOperation
from mail.admin.base import (
    PRIVATE,
    ContentAdmin,
    action_link,
    if_readable,
    status_column,
)
from mail.admin.filters import CreatedFilter, OutboundStatusFilter
from mail.models import OutboundMessage, OutboundStatus
from mail.services.approvals.approvals import lock_questions
from mail.services.approvals.notice import content_of
from mail.services.mailboxes.content_access import may_read
from mail.services.sending import outbound_operations
from mail.services.sending.loop_guard import lock_replies
from tenants.admin.base import FirmFilter, TenantOperationsAdmin

OUTBOUND_STATUS_LABELS: dict[str, str] = {
    OutboundStatus.APPROVED_PENDING: "warning",
    OutboundStatus.QUEUED: "info",
    OutboundStatus.SENDING: "primary",
    OutboundStatus.SENT: "success",
    OutboundStatus.FAILED: "danger",
    OutboundStatus.CANCELED: "default",
    OutboundStatus.REJECTED: "default",
    OutboundStatus.UNKNOWN: "danger",
}


def _unless(*statuses: OutboundStatus) -> Any:
    def obstacle(outbound: OutboundMessage) -> str:
        if outbound.status in statuses:
            return ""
        return outbound_operations.state_in_words(outbound)

    return obstacle


def _seen(outbound: OutboundMessage) -> str:
    return f"{outbound.status} {outbound.releases}"


@admin.register(OutboundMessage)
class OutboundMessageAdmin(TenantOperationsAdmin, ContentAdmin):
    """The messages that Mailroom sends, and their outcomes."""

    empty_text = "Mailroom has not sent anything yet."
    operations = (
        MailboxOperation(
            name="cancel",
            label="Do not send",
            icon="cancel",
            form=OptionalReasonForm,
            effect="The message is not sent.",
            obstacle=_unless(OutboundStatus.APPROVED_PENDING, OutboundStatus.QUEUED),
            seen=_seen,
            perform=outbound_operations.cancel_outbound,
            report=outbound_operations.state_in_words,
        ),
        MailboxOperation(
            name="mark-sent",
            label="Mark as sent",
            icon="mark_email_read",
            effect="You have seen the message in the sent mail, or know that it arrived.",
            obstacle=_unless(OutboundStatus.UNKNOWN),
            seen=_seen,
            perform=outbound_operations.mark_sent,
            report=outbound_operations.state_in_words,
        ),
        MailboxOperation(
            name="send-again",
            label="Send again",
            icon="forward_to_inbox",
            variant="danger",
            effect="Mailroom looks for the message once more, and sends it if it is not found. "
            "Look into the sent mail first: a message that was sent and then deleted "
            "would be sent twice.",
            obstacle=outbound_operations.why_not_sendable,
            seen=_seen,
            perform=outbound_operations.send_again,
            report=outbound_operations.state_in_words,
        ),
    )
    list_display = ("line", "state", "kind", "account", "firm", "made", "gone")
    list_select_related = ("firm", "account")
    list_filter = (OutboundStatusFilter, FirmFilter, CreatedFilter)
    ordering = ("-id",)
    fields = (
        "line",
        "kind",
        "status",
        "error",
        "as_whom",
        "everybody",
        "body",
        "files",
        "on",
        "doing",
        "account",
        "automatic",
        "rfc822_id",
        "gmail_message_id",
        "content_hash",
        "job",
        "created_at",
        "send_after",
        "sent_at",
    )
    made = age_column("Asked for", "created_at")
    gone = age_column("Sent", "sent_at")
    doing = column("Action", lambda row: action_link(row.action))
    state = status_column(OUTBOUND_STATUS_LABELS)
    as_whom = column("From", lambda row: str(row.sender.get("address", "-")))
    everybody = column("To", lambda row: if_readable(row, ", ".join(row.recipients)))
    files = column("Files", lambda row: if_readable(row, ", ".join(row.filenames) or "-"))

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Let operators send a message again only if they may read it."""
        if row is not None and operation.name == "send-again":
            readable = may_read(request.user.pk, row.account)
            return readable and super().may(request, operation, row)
        return super().may(request, operation, row)

    def lock_row(self, row: Any) -> Any:
        """Lock the mailbox's replies and the message's approvals first, in a decision's order."""
        lock_replies(row.account_id)
        lock_questions(row)
        return super().lock_row(row)

    @display(description="Text")
    def body(self, outbound: OutboundMessage) -> SafeString | str:
        """Return the text."""
        if not outbound.is_readable:  # type: ignore[attr-defined]  # annotated
            return PRIVATE
        blocks = [(code_block(said),) for _, said in content_of(outbound)]
        return format_html_join("", "{}", blocks) or "-"
