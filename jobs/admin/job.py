"""Jobs in the admin."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse

from interfaces.admin.base import column
from interfaces.admin.operations import OptionalReasonForm
from jobs.admin.base import (
    LABELS,
    Fact,
    QueueOperation,
    age_column,
    copyable,
    error_line,
    exact,
    firm_name,
    job_url,
    payload_mask,
    pretty_json,
)
from jobs.admin.bulk import BulkOperationsAdmin
from jobs.admin.bulk_actions import BulkAction, BulkPriorityForm, RestartForm
from jobs.admin.filters import (
    CategoryFilter,
    CreatedFilter,
    HeldBackFilter,
    JobTypeFilter,
    LockKeyFilter,
    OlderFilter,
    SettledFilter,
    StatusFilter,
    UserFilter,
)
from jobs.admin.job_edit import EDIT
from jobs.admin.job_search import JobSearchAdmin
from jobs.admin.new_job import NewJobAdmin
from jobs.admin.saved_views import SavedViewsAdmin
from jobs.admin.timeline import headline, timeline
from jobs.engine.clock import database_now
from jobs.models import JobQueue
from jobs.operations import jobs
from jobs.queries.durations import in_words
from jobs.queries.held_back import limits_in_force
from jobs.queries.job_detail import correlation_tree, details_of, progress_in_words
from jobs.queries.last_errors import fetch_classes_of_last_errors, last_error
from jobs.queries.lists import FIRM, LARGE_COLUMNS
from jobs.queries.search import error_search
from jobs.states import IN_FLIGHT, RETRYABLE, BulkOperation, Listing, Priority, Status
from tenants.admin.base import FirmFilter


def _not_retryable(job: JobQueue) -> str:
    if job.status in RETRYABLE:
        return ""
    return f"The job is {job.status}; only a dead, failed or canceled one can be retried."


def _not_cancelable(job: JobQueue) -> str:
    if job.status == Status.PENDING:
        return ""
    if job.status not in IN_FLIGHT:
        return f"The job is over: it is {job.status}."
    if job.cancel_requested_at is None:
        return ""
    return "The job has already been asked to stop; it stops at its next checkpoint."


def _cancel_effect(job: JobQueue) -> str:
    if job.status in IN_FLIGHT:
        return "The job is running: its handler is asked to stop at its next checkpoint."
    return "The job has not started: it is canceled at once. You can retry it later."


def _cancel_report(job: JobQueue) -> str:
    if job.status == Status.CANCELED:
        return f"{job.job_type} is canceled."
    return f"{job.job_type} was asked to stop."


RETRY = QueueOperation(
    name="retry",
    label="Retry",
    icon="replay",
    variant="primary",
    form=OptionalReasonForm,
    effect="The job returns to the queue with its payload unchanged, and its attempts start from "
    "zero. Its open dead letter, if any, is closed as reprocessed.",
    obstacle=_not_retryable,
    # With the series, because since then the job may have been retried and failed again.
    seen=lambda job: f"{job.series} {job.status}",
    perform=jobs.retry,
    report=lambda job: f"{job.job_type} is {job.status} again (series {job.series}).",
)
CANCEL = QueueOperation(
    name="cancel",
    label="Cancel job",
    icon="block",
    form=OptionalReasonForm,
    effect=_cancel_effect,
    obstacle=_not_cancelable,
    # A job in flight is asked to stop, the others are canceled at once.
    seen=lambda job: f"{job.series} {'running' if job.status in IN_FLIGHT else job.status}",
    perform=jobs.cancel,
    report=_cancel_report,
)


def _waited(job: JobQueue) -> str:
    """Return how long the job was due before a worker claimed it."""
    if job.claimed_at is None or job.claimed_at < job.scheduled_at:
        return "-"
    return in_words((job.claimed_at - job.scheduled_at).total_seconds())


@admin.register(JobQueue)
class JobAdmin(SavedViewsAdmin, NewJobAdmin, JobSearchAdmin, BulkOperationsAdmin):
    """All jobs, newest first."""

    listing = Listing.JOBS
    operations = (EDIT, RETRY, CANCEL)
    bulk_actions = (
        BulkAction(
            operation=BulkOperation.RETRY,
            label="Retry",
            icon="replay",
            variant="primary",
            form=RestartForm,
            effect="The jobs return to the queue with their payloads unchanged, and their "
            "attempts start from zero. Their open dead letters are closed as reprocessed.",
        ),
        BulkAction(
            operation=BulkOperation.CANCEL,
            label="Cancel",
            icon="block",
            variant="danger",
            effect="Jobs that have not started are canceled at once; running ones are asked to "
            "stop at their next checkpoint.",
        ),
        BulkAction(
            operation=BulkOperation.SET_PRIORITY,
            label="Set priority",
            icon="low_priority",
            form=BulkPriorityForm,
            effect="Jobs that have not started get the new priority. Lower numbers start first.",
        ),
    )
    change_form_template = "admin/jobs/jobqueue/page.html"
    empty_text = "No job has been enqueued yet."
    list_display = (
        "job",
        "number",
        "state",
        "firm",
        "created",
        "waited",
        "reason",
        "tries",
        "error",
    )
    list_filter = (
        StatusFilter,
        HeldBackFilter,
        CategoryFilter,
        JobTypeFilter,
        UserFilter,
        FirmFilter,
        CreatedFilter,
        SettledFilter,
        LockKeyFilter,
        OlderFilter,
    )
    search_fields = ("job_id",)
    search_instead = staticmethod(error_search)
    search_help_text = (
        "Job id (or its beginning), correlation id, idempotency key (or its beginning); type: firm:"
        " status: error: key: correlation: user: reason: created:>2026-01-31 payload.FIELD:"
    )
    ordering = ("-job_id",)
    # Not the firm: see `job_rows`.
    list_select_related = ()
    job = column("Job", lambda job: [job.job_type, job.category], header=True)
    number = column("Id", lambda job: copyable(job.job_id))
    state = column("Status", lambda job: job.status, label=LABELS)
    created = age_column("Created", "created_at")
    waited = column("Waited", _waited)
    reason = column("Why waiting", lambda job: job.wait_code.words if job.wait_code else "-")
    tries = column("Tries", lambda job: f"{job.attempts}/{job.max_attempts}")
    error = column("Last error", lambda job: error_line(last_error(job)))

    def get_queryset(self, request: HttpRequest) -> QuerySet[JobQueue]:
        """Do not fetch the large columns for the list."""
        rows: QuerySet[JobQueue] = super().get_queryset(request)
        match = request.resolver_match
        if match is not None and match.url_name == "jobs_jobqueue_changelist":
            return rows.prefetch_related(FIRM).defer(*LARGE_COLUMNS)
        return rows.select_related("user").prefetch_related("firm")

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Add to the list's rows why they wait, and the classes of their last errors."""
        found = super().get_changelist_instance(request)
        found.result_list = list(found.result_list)
        fetch_classes_of_last_errors(found.result_list)
        waits = any(job.status == Status.PENDING for job in found.result_list)
        limits = limits_in_force() if waits else None
        for job in found.result_list:
            job.wait_code = limits.reason_of(job) if limits else None
        return found

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return the job's state, timeline, payload and results."""
        details, now, mask = details_of(row), database_now(), payload_mask(request, row.firm_id)
        # First, since it fetches the class of this job's error with those of the others.
        tree = correlation_tree(details)
        return {
            **super().page_context(request, row),
            "title": row.job_type,
            "job": row,
            "details": details,
            "status_label": LABELS[row.status],
            "last_error": last_error(row),
            "headline": headline(details, now),
            "timeline": timeline(details, now),
            "payload": pretty_json(row.payload, mask),
            "result": None if row.result is None else pretty_json(row.result, mask),
            "facts": _facts(row),
            "tree": [(one, LABELS[one.job.status]) for one in tree],
            "steps": [
                (
                    step,
                    None if step.seconds is None else in_words(step.seconds),
                    pretty_json(step.result, mask),
                )
                for step in details.steps
            ],
        }

    def subject(self, row: JobQueue) -> str:
        """Return type, id and status."""
        return f"{row.job_type} {row.job_id} ({row.status})"


def _facts(job: JobQueue) -> list[Fact]:
    listing = reverse("admin:jobs_jobqueue_changelist")
    return [
        Fact("Job id", job.job_id, is_code=True),
        Fact("Firm", firm_name(job), reverse("admin:tenants_firm_change", args=[job.firm_id])),
        Fact("Category", job.category, f"{listing}?category={job.category}"),
        Fact("Priority", Priority(job.priority).word),
        Fact("Attempts", f"{job.attempts} of {job.max_attempts}"),
        Fact("Worker deaths", job.deaths),
        Fact("Series", job.series if job.series > 1 else None),
        Fact("Progress", progress_in_words(job)),
        Fact("On behalf of", job.user.get_username() if job.user_id and job.user else None),
        Fact(
            "Correlation id",
            job.correlation_id,
            f"{listing}?{urlencode({'q': job.correlation_id})}",
            is_code=True,
        ),
        Fact("Parent", job.parent_id, job_url(job.parent_id), is_code=True),
        Fact("Idempotency key", job.idempotency_key, is_code=True),
        Fact("Lock key", job.lock_key, is_code=True),
        Fact("Lock counted by", "all firms" if job.shares_lock else None),
        Fact("Limit key", job.limit_key, is_code=True),
        Fact("Limit units", job.limit_units if job.limit_units > 1 else None),
        Fact("Worker", job.worker_id, is_code=True),
        Fact("Payload version", job.payload_version),
        Fact("Created", exact(job.created_at)),
        Fact("Scheduled", exact(job.scheduled_at)),
        Fact("Started", exact(job.started_at)),
        Fact("Completed", exact(job.completed_at)),
        Fact("Expires", exact(job.expires_at)),
    ]
