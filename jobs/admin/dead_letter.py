"""Dead letters in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.decorators import display

from jobs.admin.base import (
    REASON_LABELS,
    RESOLUTION_LABELS,
    Fact,
    age_column,
    error_line,
    exact,
    job_url,
    known,
    payload_mask,
    pretty_json,
    short_id,
)
from jobs.admin.bulk import BulkOperationsAdmin
from jobs.admin.dead_letter_operations import DISCARD, ESCALATE, REPROCESS
from jobs.admin.filters import (
    DeadCategoryFilter,
    DeadTypeFilter,
    MovedFilter,
    ReasonFilter,
    ResolutionFilter,
)
from jobs.models import DeadLetterQueue
from jobs.queries.filters import search_dead_letters
from jobs.queries.lists import LARGE_COLUMNS_OF_JOB
from tenants.admin.filters import FirmFilter

SAME_FAILURE_SHOWN = 10


@admin.register(DeadLetterQueue)
class DeadLetterAdmin(BulkOperationsAdmin):
    """Jobs that ended dead: open ones and resolved ones."""

    operations = (REPROCESS, ESCALATE, DISCARD)
    bulk_operations = (REPROCESS, DISCARD)
    change_form_template = "admin/jobs/deadletterqueue/page.html"
    list_display = ("dead_letter", "cause", "decision", "firm", "moved", "failure")
    list_select_related = ("firm", "original_job")
    list_filter = (
        ResolutionFilter,
        ReasonFilter,
        DeadCategoryFilter,
        DeadTypeFilter,
        FirmFilter,
        MovedFilter,
    )
    search_fields = ("fingerprint",)
    search = staticmethod(search_dead_letters)
    search_help_text = "Job or dead letter id (or its beginning), fingerprint, error class"
    ordering = ("-id",)
    moved = age_column("Moved", "moved_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[DeadLetterQueue]:
        """Do not fetch the jobs' large columns: only a row's own page needs them."""
        rows: QuerySet[DeadLetterQueue] = super().get_queryset(request)
        return rows.defer(*LARGE_COLUMNS_OF_JOB)

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return why the job stopped, its resolution, and the dead letters of the same failure."""
        job = row.original_job
        return {
            **super().page_context(request, row),
            "title": job.job_type,
            "row": row,
            "job": job,
            "payload": pretty_json(job.payload, payload_mask(request, row.firm_id)),
            "reason": row.reason.replace("_", " "),
            "reason_label": REASON_LABELS[row.reason],
            "resolution": row.resolution or "open",
            "resolution_label": RESOLUTION_LABELS[row.resolution or "open"],
            "same_failure": [
                (other, RESOLUTION_LABELS[other.resolution or "open"])
                for other in _same_failure(row)
            ],
            "facts": known(_facts(row)),
        }

    def subject(self, row: DeadLetterQueue) -> str:
        """Return type, short id and error."""
        error = error_text(row)
        return f"{row.original_job.job_type} {short_id(row.pk)}{': ' if error else ''}{error}"

    @display(description="Dead letter", header=True)
    def dead_letter(self, row: DeadLetterQueue) -> list[str]:
        """Return the job's type, then category and short id."""
        return [row.original_job.job_type, f"{row.original_job.category} {short_id(row.pk)}"]

    @display(description="Reason", label=REASON_LABELS)
    def cause(self, row: DeadLetterQueue) -> tuple[str, str]:
        """Return why the job is dead."""
        return row.reason, row.reason.replace("_", " ")

    @display(description="Decision", label=RESOLUTION_LABELS)
    def decision(self, row: DeadLetterQueue) -> str:
        """Return the resolution."""
        return row.resolution or "open"

    @display(description="Error")
    def failure(self, row: DeadLetterQueue) -> str:
        """Return the beginning of the error."""
        return error_line(error_text(row))


def error_text(row: DeadLetterQueue) -> str:
    """Return the error with its class."""
    return f"{row.error_class}: {row.error}".strip(": ")


def _same_failure(row: DeadLetterQueue) -> list[DeadLetterQueue]:
    if not row.fingerprint:
        return []
    others = DeadLetterQueue.objects.filter(firm_id=row.firm_id, fingerprint=row.fingerprint)
    others = others.exclude(pk=row.pk).select_related("original_job").defer(*LARGE_COLUMNS_OF_JOB)
    return list(others.order_by("-id")[:SAME_FAILURE_SHOWN])


def _facts(row: DeadLetterQueue) -> list[Fact]:
    job = row.original_job
    return [
        Fact("Dead letter id", row.pk, is_code=True),
        Fact("Job", job.job_id, job_url(job.job_id), is_code=True),
        Fact("Firm", row.firm.name),
        Fact("Category", job.category),
        Fact("Attempts", f"{job.attempts} of {job.max_attempts}"),
        Fact("Series", row.job_series if row.job_series > 1 else None),
        Fact("Fingerprint", row.fingerprint, is_code=True),
        Fact("Moved", exact(row.moved_at)),
        Fact("Decided", exact(row.reviewed_at)),
        Fact("Decided by", row.reviewed_by.get_username() if row.reviewed_by else None),
        Fact("Assigned to", row.assigned_to.get_username() if row.assigned_to else None),
    ]
