"""Drafts in the admin: what Mailroom wrote, and how each draft ended."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.decorators import display

from interfaces.admin.base import code_block, column
from interfaces.admin.operations import Operation, OperationForm, OptionalReasonForm
from jobs.admin.base import age_column
from mail.admin.account_operations import MailboxOperation
from mail.admin.base import (
    PRIVATE,
    ContentAdmin,
    if_readable,
    status_column,
)
from mail.admin.filters import CreatedFilter, DraftSourceFilter, DraftStatusFilter
from mail.models import MAX_INSTRUCTION_LENGTH, Draft, DraftStatus
from mail.services.drafting import operations
from mail.services.drafting.task import MOST_REWORKS
from mail.services.mailboxes.content_access import may_read
from tenants.admin.base import FirmFilter, TenantOperationsAdmin

DRAFT_STATUS_LABELS: dict[str, str] = {
    DraftStatus.WRITING: "primary",
    DraftStatus.READY: "info",
    DraftStatus.SENT: "success",
    DraftStatus.KEPT: "warning",
}


class ReworkForm(OperationForm):
    """What the rework should change."""

    instruction = forms.CharField(
        required=False,
        max_length=MAX_INSTRUCTION_LENGTH,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="An order above the marker in Gmail takes precedence over this one.",
    )


def _not_in_gmail(draft: Draft) -> str:
    if draft.status == DraftStatus.READY:
        return operations.why_left_alone(draft)
    return f"The draft is {draft.get_status_display().lower()}."


def _not_reworkable(draft: Draft) -> str:
    often = draft.rework_count >= MOST_REWORKS
    return f"The draft was reworked {MOST_REWORKS} times." if often else _not_in_gmail(draft)


@admin.register(Draft)
class DraftAdmin(TenantOperationsAdmin, ContentAdmin):
    """Drafts, the newest first; each rework is a row of its own."""

    empty_text = "No answer was drafted yet."
    operations = (
        MailboxOperation(
            name="rework",
            label="Rework",
            icon="edit_note",
            variant="primary",
            form=ReworkForm,
            effect="The draft is written anew. A draft that was edited in Gmail stays beside the "
            "new one.",
            obstacle=_not_reworkable,
            seen=lambda draft: draft.status,
            perform=operations.request_rework,
            report=lambda _: "The draft is being written anew.",
        ),
        MailboxOperation(
            name="discard",
            label="Discard",
            icon="delete",
            variant="danger",
            form=OptionalReasonForm,
            effect="The draft is moved to the trash in Gmail, unless somebody has edited it there.",
            obstacle=_not_in_gmail,
            seen=lambda draft: draft.status,
            perform=operations.discard_draft,
            report=lambda _: (
                "The draft is moved to the trash in Gmail, unless somebody has edited it there."
            ),
        ),
    )
    list_display = ("line", "state", "origin", "source", "account", "firm", "created")
    list_select_related = ("firm", "account")
    list_filter = (DraftStatusFilter, DraftSourceFilter, FirmFilter, CreatedFilter)
    ordering = ("-id",)
    fields = (
        "line", "status", "changed", "origin", "by_whom", "everybody", "body", "asked", "on", "style",
        "language", "rework_count", "related", "account", "gmail_draft_id", "job", "created_at",
        "written_at", "ended_at",
    )  # fmt: skip
    changed = column(
        "Edited in Gmail", lambda draft: "By the person" if draft.edited else "Not yet"
    )
    created = age_column("Created", "created_at")
    state = status_column(DRAFT_STATUS_LABELS)
    body = column("Text", lambda row: _block(row, row.text))
    asked = column(
        "Instruction", lambda row: _block(row, row.instruction) if row.instruction else "-"
    )

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Let operators order a rework only if they may read the draft."""
        if row is not None and operation.name == "rework":
            readable = may_read(request.user.pk, row.account)
            return readable and super().may(request, operation, row)
        return super().may(request, operation, row)

    @display(description="Written by")
    def by_whom(self, draft: Draft) -> str:
        """Return who wrote the text."""
        template = f" ({draft.template_name})" if draft.template_name else ""
        return f"{draft.get_source_display()}{template}"

    @display(description="To")
    def everybody(self, draft: Draft) -> str:
        """Return the recipients."""
        to = ", ".join(str(one.get("address", "")) for one in draft.to)
        return str(if_readable(draft, to))


def _block(draft: Any, text: str) -> SafeString | str:
    if not draft.is_readable:
        return PRIVATE
    return code_block(text)
