"""Documents in the admin: the state of each attachment, and its text."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.decorators import display

from interfaces.admin.base import code_block, column
from jobs.admin.base import age_column
from mail.admin.base import (
    PRIVATE,
    ContentAdmin,
    if_readable,
    status_column,
)
from mail.admin.filters import CreatedFilter, DocumentStatusFilter
from mail.models import Document, DocumentStatus
from mail.services.documents.stranded import why_not_read, with_job_status
from tenants.admin.base import FirmFilter, TenantOperationsAdmin

DOCUMENT_STATUS_LABELS: dict[str, str] = {
    DocumentStatus.WAITING: "info",
    DocumentStatus.FETCHED: "info",
    DocumentStatus.SCANNED: "info",
    DocumentStatus.READ: "success",
    DocumentStatus.UNREADABLE: "warning",
    DocumentStatus.INFECTED: "danger",
    DocumentStatus.SKIPPED: "default",
}


@admin.register(Document)
class DocumentAdmin(TenantOperationsAdmin, ContentAdmin):
    """Attachments that are read, the newest first."""

    empty_text = "No attachment was read yet."
    list_display = ("name", "state", "why", "scanned", "account", "firm", "created")
    list_select_related = ("firm", "account", "attachment")
    list_filter = (DocumentStatusFilter, FirmFilter, CreatedFilter)
    ordering = ("-id",)
    fields = (
        "name", "on", "status", "why", "scanned", "found", "declared_type", "detected_type", "size",
        "hash", "body", "account", "job", "created_at", "fetched_at", "scanned_at", "ended_at",
    )  # fmt: skip
    created = age_column("Created", "created_at")
    declared_type = column("Declared type", lambda row: row.attachment.mime_type or "-")
    scanned = column("Malware scan", lambda row: row.get_scan_display())
    why = column("Why not read", lambda row: why_not_read(row)[1] or "-")
    name = column(
        "Attachment", lambda row: if_readable(row, row.attachment.filename or "(no name)")
    )
    state = status_column(DOCUMENT_STATUS_LABELS)
    found = column("Malware", lambda row: if_readable(row, row.malware or "-"))
    hash = column("SHA-256", lambda row: if_readable(row, row.sha256 or "-"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Document]:
        """Leave out the bytes, which no page needs."""
        rows: QuerySet[Document] = super().get_queryset(request)
        return with_job_status(rows).defer("content")

    @display(description="Text")
    def body(self, document: Any) -> SafeString | str:
        """Return the attachment's text."""
        if not document.is_readable:
            return PRIVATE
        return code_block(document.text or "(no text)")
