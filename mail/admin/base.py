"""What the mail pages share: label colours, links, indented JSON."""

from __future__ import annotations

from uuid import UUID

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.admin.base import job_url, link, pretty_json
from mail.llm.base import Category
from mail.models import ActionStatus, Decision, Message, SyncStatus, ThreadStatus
from tenants.admin.base import TenantAdmin

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
SUBJECT_LENGTH = 80


class MailAdmin(TenantAdmin):
    """A list of a firm's mail rows."""

    list_select_related: tuple[str, ...] = ("firm",)


def subject_line(subject: str) -> str:
    """Return a subject to fit a list, with a stand-in when there is none."""
    if not subject:
        return "(no subject)"
    return subject if len(subject) <= SUBJECT_LENGTH else f"{subject[: SUBJECT_LENGTH - 1]}…"


def message_link(message: Message | None) -> SafeString | str:
    """Return a link to the message's page, a dash for no message."""
    if message is None:
        return "-"
    return link(_address("message", message.pk), subject_line(message.subject))


def decision_link(decision: Decision | None) -> SafeString | str:
    """Return a link to the decision's page, a dash for no decision."""
    return "-" if decision is None else link(_address("decision", decision.pk), decision)


def _address(model: str, row_id: UUID) -> str:
    return reverse(f"admin:mail_{model}_change", args=[row_id])


def job_link(job_id: UUID | None) -> SafeString | str:
    """Return a link to a job's page, a dash for no job."""
    return "-" if job_id is None else link(job_url(job_id), job_id)


def json_block(value: object) -> SafeString | str:
    """Return indented JSON data; a dash for none."""
    if value in (None, {}, []):
        return "-"
    return format_html('<pre class="queue-code">{}</pre>', pretty_json(value))
