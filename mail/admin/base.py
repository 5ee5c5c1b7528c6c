"""What the mail pages share: label colours, links, JSON as text."""

from __future__ import annotations

from typing import Any, TypeVar, cast
from uuid import UUID

from django.db.models import Case, Model, Q, QuerySet, When
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from interfaces.admin.base import code_block, column
from jobs.admin.base import job_url, link, pretty_json
from mail.llm.base import Category
from mail.models import (
    Action,
    ActionStatus,
    Connection,
    Decision,
    MailThread,
    Message,
    OutboundMessage,
    SyncStatus,
    ThreadStatus,
)
from mail.services.mailboxes.content_access import readable
from tenants.admin.base import TenantAdmin

T = TypeVar("T")

# Unfold's label variants.
CATEGORY_LABELS: dict[str, str] = {
    Category.NEEDS_RESPONSE: "danger",
    Category.ACTION_REQUIRED: "warning",
    Category.PAYMENT_REQUEST: "warning",
    Category.FYI: "info",
    Category.WAITING: "primary",
    "": "default",
}
THREAD_STATUS_LABELS: dict[str, str] = {
    ThreadStatus.PENDING: "warning",
    ThreadStatus.DRAFTED: "primary",
    ThreadStatus.SENT: "success",
    ThreadStatus.SKIPPED: "default",
    ThreadStatus.ARCHIVED: "default",
}
ACTION_STATUS_LABELS: dict[str, str] = {
    ActionStatus.QUEUED: "info",
    ActionStatus.EXECUTING: "primary",
    ActionStatus.COMPLETED: "success",
    ActionStatus.FAILED: "danger",
    ActionStatus.CANCELED: "default",
    ActionStatus.REJECTED: "default",
    ActionStatus.APPROVED_PENDING: "warning",
}
SYNC_STATUS_LABELS: dict[str, str] = {
    SyncStatus.NORMAL: "success",
    SyncStatus.NEEDS_BACKFILL: "warning",
    SyncStatus.BACKFILLING: "info",
}
CONNECTION_LABELS: dict[str, str] = {
    Connection.CONNECTED: "success",
    Connection.NEEDS_REAUTH: "danger",
    Connection.DISCONNECTED: "default",
}
SUBJECT_LENGTH = 80
PRIVATE = "(private)"
_READABLE = "readable_mailboxes"


def status_column(labels: dict[str, str]) -> Any:
    """Return the column with the rows' statuses, in the colours of `labels`."""
    return column("Status", lambda row: (row.status, row.get_status_display()), label=labels)


def _subject_of(row: Any) -> str:
    return "-" if row.message is None else if_readable(row, subject_line(row.message.subject))


class MailAdmin(TenantAdmin):
    """A list of a firm's mail rows."""

    list_select_related: tuple[str, ...] = ("firm",)


class ContentAdmin(MailAdmin):
    """Rows of a mailbox's mail: the firm sees that they exist, only readers see what they say."""

    # Of those that have a subject, a message or a job.
    line = column("Subject", lambda row: if_readable(row, subject_line(row.subject)))
    about = column("Message", _subject_of)
    on = column("Message", lambda row: message_link(row.message, is_readable=row.is_readable))
    job = column("Job", lambda row: job_link(row.job_id))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Annotate the rows with whether the user may read them, as `is_readable`."""
        rows: QuerySet[Any] = super().get_queryset(request)
        is_readable = Case(When(_readable_by(request), then=True), default=False)
        marked: QuerySet[Any] = rows.annotate(is_readable=is_readable)
        return marked

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Model:
        """Return the row; the page of a message or thread is named by its subject."""
        found: Any = super().get_object(request, object_id, from_field)
        if isinstance(found, Message | MailThread):
            found.page_name = if_readable(found, subject_line(found.subject))  # type: ignore[union-attr]
        return cast("Model", found)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search readable rows only, because a hit in other rows would reveal what they say."""
        if search_term.strip():
            queryset = queryset.filter(_readable_by(request))
        found: tuple[QuerySet[Any], bool] = super().get_search_results(
            request, queryset, search_term
        )
        return found


def _readable_by(request: HttpRequest) -> Q:
    if not hasattr(request, _READABLE):
        setattr(request, _READABLE, readable(request.user.pk, "account__"))
    condition: Q = getattr(request, _READABLE)
    return condition


def if_readable(row: Any, text: T) -> T | str:
    """Return the text if the user may read the row's mailbox, otherwise a placeholder."""
    return text if row.is_readable else PRIVATE


def subject_line(subject: str) -> str:
    """Return a subject cut to fit a list, or a placeholder if there is none."""
    if not subject:
        return "(no subject)"
    return subject if len(subject) <= SUBJECT_LENGTH else f"{subject[: SUBJECT_LENGTH - 1]}…"


def message_link(message: Message | None, *, is_readable: bool) -> SafeString | str:
    """Return a link to the message's page, a dash if there is no message."""
    if message is None:
        return "-"
    text = subject_line(message.subject) if is_readable else PRIVATE
    return link(_address("message", message.pk), text)


def decision_link(decision: Decision | None) -> SafeString | str:
    """Return a link to the decision's page, a dash if there is no decision."""
    return "-" if decision is None else link(_address("decision", decision.pk), decision)


def action_link(action: Action | None) -> SafeString | str:
    """Return a link to the action's page, a dash if there is no action."""
    return "-" if action is None else link(_address("action", action.pk), action)


def outbound_link(outbound: OutboundMessage | None) -> SafeString | str:
    """Return a link to the outbound message's page, a dash if there is none."""
    return "-" if outbound is None else link(_address("outboundmessage", outbound.pk), outbound)


def _address(model: str, row_id: UUID) -> str:
    return reverse(f"admin:mail_{model}_change", args=[row_id])


def job_link(job_id: UUID | None) -> SafeString | str:
    """Return a link to a job's page, a dash if there is no job."""
    return "-" if job_id is None else link(job_url(job_id), job_id)


def json_block(value: object) -> SafeString | str:
    """Return JSON data as indented text, a dash if there are none."""
    if value in (None, {}, []):
        return "-"
    return code_block(pretty_json(value))
