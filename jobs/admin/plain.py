"""Simple pages for the stock admin, where Unfold is not installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.engine.redaction import redact_secrets
from jobs.errors import JobError
from jobs.models import Batch, DeadLetterQueue, JobQueue, Schedule, Worker
from jobs.operations import dead_letters, jobs
from jobs.queries.batches import progress_in_words, progress_of, with_counts
from jobs.queries.last_errors import classes_of_last_errors, last_error
from jobs.states import OPEN_RESOLUTIONS
from tenants.admin.plain import PlainAdmin
from tenants.audit import Actor

# How much of an error a list shows.
LINE_LENGTH = 120
DISCARD_REASON = "discarded in the admin"

Perform = Callable[[Any, Actor], object]


def _shown_json(value: object) -> SafeString:
    text = json.dumps(redact_secrets(value), ensure_ascii=False, indent=2, default=str)
    return format_html("<pre>{}</pre>", text)


def _line(text: str) -> str:
    return text.strip().partition("\n")[0][:LINE_LENGTH] or "-"


def _perform(
    page: PlainAdmin, request: HttpRequest, rows: QuerySet[Any], done: str, perform: Perform
) -> None:
    """Perform the operation on each row; tell the user how many succeeded, and each refusal."""
    count = 0
    for row in rows:
        try:
            perform(row, Actor("admin", request.user))  # type: ignore[arg-type]  # who may act is signed in
            count += 1
        except JobError as refused:
            page.message_user(request, f"{row}: {refused}", messages.WARNING)
    if count:
        page.message_user(request, f"{done}: {count}", messages.SUCCESS)


@admin.register(JobQueue)
class JobAdmin(PlainAdmin):
    """Jobs, newest first."""

    list_display = ("job_type", "status", "firm", "attempts", "scheduled_at", "error")
    list_filter = ("status", "category")
    list_select_related = ("firm",)
    search_fields = ("job_id__exact", "job_type__exact", "correlation_id__exact")
    search_help_text = "Id, type or correlation id"
    ordering = ("-job_id",)
    actions = ("retry", "cancel")
    fields = (
        "job_id",
        "job_type",
        "status",
        "firm",
        "priority",
        ("attempts", "max_attempts"),
        "shown_error",
        "shown_payload",
        "shown_result",
        ("lock_key", "idempotency_key"),
        "correlation_id",
        ("created_at", "scheduled_at"),
        ("started_at", "completed_at"),
    )
    readonly_fields = ("shown_error", "shown_payload", "shown_result")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Fetch the classes of the last errors along."""
        return super().get_queryset(request).prefetch_related(classes_of_last_errors())

    @admin.display(description="Error")
    def error(self, job: JobQueue) -> str:
        """The first line of the last error."""
        return _line(last_error(job))

    @admin.display(description="Last error")
    def shown_error(self, job: JobQueue) -> str:
        """The last error with its class."""
        return last_error(job) or "-"

    @admin.display(description="Payload")
    def shown_payload(self, job: JobQueue) -> SafeString:
        """The payload without secrets."""
        return _shown_json(job.payload)

    @admin.display(description="Result")
    def shown_result(self, job: JobQueue) -> SafeString:
        """The result without secrets."""
        return _shown_json(job.result)

    @admin.action(description="Retry", permissions=["operate"])
    def retry(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        """Run these dead, failed or canceled jobs again."""
        _perform(self, request, rows, "Retried", lambda row, by: jobs.retry(row, by=by))

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        """Cancel these jobs; ask those that run to end."""
        _perform(self, request, rows, "Canceled", lambda row, by: jobs.cancel(row, by=by))


class _StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("open", "To review"), ("closed", "Decided")]

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        open_letters = {"resolution__in": list(OPEN_RESOLUTIONS)}
        match self.value():
            case "open":
                return rows.filter(**open_letters)
            case "closed":
                return rows.exclude(**open_letters)
        return rows


@admin.register(DeadLetterQueue)
class DeadLetterAdmin(PlainAdmin):
    """Dead letters, newest first."""

    list_display = ("job_type", "reason", "firm", "moved_at", "line", "resolution")
    list_filter = (_StateFilter, "reason")
    list_select_related = ("firm", "original_job")
    search_fields = ("id__exact", "original_job_id__exact", "fingerprint__exact")
    search_help_text = "Id, id of the job, or fingerprint"
    ordering = ("-id",)
    actions = ("reprocess", "discard")
    fields = (
        "original_job",
        "reason",
        "error_class",
        "error",
        "fingerprint",
        "moved_at",
        "resolution",
        "resolution_note",
        ("reviewed_by", "reviewed_at"),
    )

    @admin.display(description="Type")
    def job_type(self, letter: DeadLetterQueue) -> str:
        """The type of the job."""
        return str(letter.original_job.job_type)

    @admin.display(description="Error")
    def line(self, letter: DeadLetterQueue) -> str:
        """The first line of the error."""
        return _line(letter.error)

    @admin.action(description="Reprocess", permissions=["operate"])
    def reprocess(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        """Run the jobs of these dead letters again."""
        _perform(
            self, request, rows, "Reprocessed", lambda row, by: dead_letters.reprocess(row, by=by)
        )

    @admin.action(description="Discard", permissions=["operate"])
    def discard(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        """Give the jobs of these dead letters up."""
        _perform(
            self,
            request,
            rows,
            "Discarded",
            lambda row, by: dead_letters.discard(row, DISCARD_REASON, by=by),
        )


@admin.register(Schedule)
class ScheduleAdmin(PlainAdmin):
    """Schedules; `manage.py schedules` changes them."""

    list_display = ("name", "job_type", "firm", "cron", "interval_seconds", "enabled", "next_run")
    list_select_related = ("firm",)
    ordering = ("name",)

    @admin.display(description="Next run")
    def next_run(self, schedule: Schedule) -> Any:
        """When it runs next."""
        return schedule.next_run_at


@admin.register(Batch)
class BatchAdmin(PlainAdmin):
    """Batches, newest first."""

    list_display = ("__str__", "state", "progress", "firm", "created_at", "completed_at")
    list_select_related = ("firm",)
    ordering = ("-id",)
    fields = (
        *("name", "firm", "state", "progress", "correlation_id", "created_at"),
        ("failed_at", "failed_job_id"),
        ("settled_at", "settled_job_id"),
        ("completed_at", "completed_job_id"),
    )
    readonly_fields = ("state", "progress")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Fetch the counts with the rows."""
        return with_counts(super().get_queryset(request))

    @admin.display(description="State")
    def state(self, batch: Any) -> str:
        """The batch's state."""
        return progress_of(batch).state

    @admin.display(description="Progress")
    def progress(self, batch: Any) -> str:
        """How many of its jobs are completed."""
        return progress_in_words(progress_of(batch))


@admin.register(Worker)
class WorkerAdmin(PlainAdmin):
    """Workers, those that started last first."""

    list_display = (
        "host",
        "pid",
        "version",
        "concurrency",
        "started_at",
        "heartbeat_at",
        "dead_at",
    )
    ordering = ("-started_at",)
    exclude = ("running",)
