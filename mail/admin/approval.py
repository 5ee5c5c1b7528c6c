"""Approvals in the admin: what is asked, and how it was decided."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import display

from interfaces.admin.base import column
from interfaces.admin.operations import CHANGED_MEANWHILE, Operation, OptionalReasonForm
from jobs.admin.base import age_column
from mail.admin.account_operations import MailboxOperation
from mail.admin.base import (
    PRIVATE,
    ContentAdmin,
    action_link,
    outbound_link,
    status_column,
)
from mail.admin.filters import ApprovalStatusFilter, CreatedFilter
from mail.models import Approval, ApprovalStatus
from mail.services.approvals.approvals import (
    NOT_PERMITTED,
    Decided,
    approve,
    may_decide,
    refuse,
    reject,
)
from mail.services.approvals.notice import all_facts_of, content_of
from mail.services.sending.loop_guard import lock_replies
from tenants.admin.base import FirmFilter, TenantOperationsAdmin

APPROVAL_STATUS_LABELS: dict[str, str] = {
    ApprovalStatus.PENDING: "warning",
    ApprovalStatus.APPROVED: "success",
    ApprovalStatus.REJECTED: "danger",
    ApprovalStatus.EXPIRED: "default",
    ApprovalStatus.CANCELED: "default",
}


def _seen(approval: Approval) -> str:
    return f"{approval.status} {approval.content_hash}"


def _obstacle(approval: Approval) -> str:
    if approval.status == ApprovalStatus.PENDING:
        return ""
    return f"This is already {approval.get_status_display().lower()}."


def _effect(approval: Approval) -> str:
    asked = (f"{name}: {value}" for name, value in all_facts_of(approval))
    return "\n".join(["Mailroom does this once, exactly as shown.", *asked])


def _report(approval: Approval) -> str:
    return f"{approval.subject}: {approval.get_status_display().lower()}."


@admin.register(Approval)
class ApprovalAdmin(TenantOperationsAdmin, ContentAdmin):
    """Approvals for which dangerous actions and messages wait."""

    empty_text = "Nothing was asked of a person yet."
    operations = (
        MailboxOperation(
            name="approve",
            label="Approve",
            icon="check",
            variant="primary",
            form=OptionalReasonForm,
            effect=_effect,
            obstacle=_obstacle,
            seen=_seen,
            perform=approve,
            report=_report,
        ),
        MailboxOperation(
            name="reject",
            label="Reject",
            icon="close",
            variant="danger",
            form=OptionalReasonForm,
            effect="Nothing is done.",
            obstacle=_obstacle,
            seen=_seen,
            perform=reject,
            report=_report,
        ),
    )
    list_display = ("asked", "state", "account", "firm", "asked_at", "until", "decided_by")
    list_select_related = ("firm", "account", "message", "action", "outbound")
    list_filter = (ApprovalStatusFilter, FirmFilter, CreatedFilter)
    ordering = ("-id",)
    fields = (
        "asked",
        "status",
        "facts",
        "why",
        "on",
        "doing",
        "sending",
        "account",
        "content_hash",
        "created_at",
        "expires_at",
        "notified_at",
        "decided_at",
        "decided_by",
        "decided_via",
        "came_to",
    )
    asked_at = age_column("Asked", "created_at")
    until = age_column("Ends", "expires_at")
    why = column("Because", lambda row: ", ".join(row.reasons).replace("_", " ") or "-")
    doing = column("Action", lambda row: action_link(row.action))
    sending = column("Message to send", lambda row: outbound_link(row.outbound))
    came_to = column("What became of it", lambda row: row.outcome or "-")
    asked = column("What", lambda row: row.subject)
    state = status_column(APPROVAL_STATUS_LABELS)

    def lock_row(self, row: Any) -> Any:
        """Lock the mailbox's replies first, in the order of a decision."""
        lock_replies(row.account_id)
        return super().lock_row(row)

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Let operators decide if they may read the mailbox: they must see what they approve."""
        if row is None:
            return super().may(request, operation, row)
        return may_decide(row, self.actor(request))

    def operation_view(
        self, request: HttpRequest, object_id: str | None = None, *, operation: Operation
    ) -> HttpResponse:
        """Store in the audit log a decision without effect: not permitted, or out of date."""
        try:
            answer = super().operation_view(request, object_id, operation=operation)
        except PermissionDenied:
            # The answer is 403, and the request's transaction is committed with it.
            if request.method == "POST":
                self._refuse(request, object_id, operation, lambda _: NOT_PERMITTED)
            raise
        if request.method == "POST" and answer.status_code == HTTPStatus.CONFLICT:
            self._refuse(request, object_id, operation, _obstacle)
        return answer

    def _refuse(
        self,
        request: HttpRequest,
        object_id: str | None,
        operation: Operation,
        why: Callable[[Approval], str],
    ) -> None:
        approval: Any = self.get_object(request, object_id or "")
        reason = (why(approval) or CHANGED_MEANWHILE).rstrip(".")
        refuse(approval, reason, by=self.actor(request), asked=operation.name)

    def respond(
        self, request: HttpRequest, operation: Operation, row: Any, made: Any
    ) -> HttpResponse:
        """Show an error if the decision had no effect."""
        if isinstance(made, Decided) and made.refused:
            messages.error(request, f"Nothing was done. {made.refused}.")
            return HttpResponseRedirect(self.filtered_address(request, "change", row.pk))
        return super().respond(request, operation, row, made)

    @display(description="Exactly")
    def facts(self, approval: Approval) -> SafeString | str:
        """Return what is asked in full, for readers of the mailbox."""
        if not approval.is_readable:  # type: ignore[attr-defined]  # annotated
            return PRIVATE
        lines = all_facts_of(approval)
        if approval.outbound is not None:
            lines += [("File", name) for name in approval.outbound.filenames]
            lines += content_of(approval.outbound)
        return format_html_join(
            "", '<div class="queue-written"><span class="queue-muted">{}</span> {}</div>', lines
        )
