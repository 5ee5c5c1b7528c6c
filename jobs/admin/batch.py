"""Batches in the admin: their progress, the jobs that they enqueued, the jobs that failed."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from interfaces.admin.base import column
from jobs.admin.base import LABELS, age_column, exact, job_url, link, list_url
from jobs.models import Batch
from jobs.queries.batches import failed_jobs_of, progress_in_words, progress_of, with_counts
from tenants.admin.base import FirmFilter, TenantAdmin


def _state(row: Any) -> str:
    return progress_of(row).state.value


def _job_link(field: str) -> Any:
    def shown(row: Batch) -> SafeString | str:
        job_id = getattr(row, field)
        return link(job_url(job_id), job_id) if job_id else "-"

    return shown


def _moment(description: str, field: str) -> Any:
    return column(description, lambda row: exact(getattr(row, field)) or "-")


def _failed_jobs(row: Batch) -> SafeString | str:
    links = ((job_url(job_id), job_id) for job_id in failed_jobs_of(row))
    lines = format_html_join("\n", '<a class="queue-link queue-code" href="{}">{}</a><br>', links)
    return lines or "None."


@admin.register(Batch)
class BatchAdmin(TenantAdmin):
    """Jobs that were enqueued as one, the latest first."""

    list_display = ("title", "state_now", "progress", "firm", "created", "settled", "finished")
    list_filter = (FirmFilter,)
    list_select_related = ("firm",)
    ordering = ("-id",)
    fields = (
        *("title", "firm", "shown_state", "progress", "shown_failed", "shown_jobs"),
        *("made_at", "first_failure_at", "after_failure", "all_over_at", "after_settled"),
        *("all_completed_at", "after_completion"),
    )
    title = column("Batch", str)
    state_now = column("State", lambda row: (_state(row), _state(row)), label=LABELS)
    shown_state = column("State", _state)
    progress = column("Progress", lambda row: progress_in_words(progress_of(row)))
    created = age_column("Created", "created_at")
    settled = age_column("All settled", "settled_at")
    finished = age_column("Completed", "completed_at")
    shown_failed = column("Failed jobs", _failed_jobs)
    shown_jobs = column(
        "Jobs",
        lambda row: link(
            f"{list_url('jobqueue')}?{urlencode({'q': f'correlation:{row.correlation_id}'})}",
            "all with its correlation id",
        ),
    )
    made_at = _moment("Created", "created_at")
    first_failure_at = _moment("First failure", "failed_at")
    after_failure = column("Job enqueued at the first failure", _job_link("failed_job_id"))
    all_over_at = _moment("All settled", "settled_at")
    after_settled = column("Job enqueued when all were settled", _job_link("settled_job_id"))
    all_completed_at = _moment("All completed", "completed_at")
    after_completion = column("Job enqueued when all were completed", _job_link("completed_job_id"))
    empty_text = "No batches."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Fetch the firm and the counts with the rows."""
        rows: QuerySet[Batch] = super().get_queryset(request)
        return with_counts(rows.select_related("firm"))
