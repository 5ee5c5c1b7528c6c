"""Dead letters in the admin: why their jobs stopped; reprocess, escalate, discard."""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from interfaces.admin.base import column
from interfaces.admin.operations import Operation, ReasonForm, TextAnswer
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
    list_url,
    payload_mask,
    pretty_json,
)
from jobs.admin.bulk import BulkOperationsAdmin
from jobs.admin.bulk_actions import BulkAction, RestartForm
from jobs.admin.filters import (
    CategoryFilter,
    DeadUserFilter,
    JobTypeFilter,
    MovedFilter,
    MovedPeriodFilter,
    ReasonFilter,
    ResolutionFilter,
)
from jobs.admin.payload_field import JobChangesForm
from jobs.admin.rehearsal import REHEARSE, rehearsal_context
from jobs.admin.saved_views import SavedViewsAdmin
from jobs.admin.triage import triage_board
from jobs.models import DeadLetterQueue, JobQueue
from jobs.operations import dead_letters
from jobs.operations.escalation import NO_RECIPIENTS, escalation_recipients
from jobs.operations.payloads import why_refused
from jobs.queries.dead_letter_detail import (
    attempts_made,
    is_of_an_earlier_series,
    last_traceback,
    same_failure,
)
from jobs.queries.filters import search_dead_letters
from jobs.queries.last_errors import error_in_words
from jobs.queries.lists import LARGE_COLUMNS_OF_JOB
from jobs.queries.search import error_search
from jobs.states import BulkOperation, Listing
from tenants.admin.base import FirmFilter
from tenants.users import sign_in_field


class ReprocessForm(JobChangesForm):
    """The payload and priority of the new series."""

    reason = TextAnswer(required=False, help_text="Kept with the dead letter and in the audit log.")

    def job_of(self, row: DeadLetterQueue) -> JobQueue:
        """Return the dead letter's job."""
        return row.original_job


class EscalateForm(ReasonForm):
    """Whom to ask, and why."""

    to = forms.ModelChoiceField(
        queryset=get_user_model().objects.none(),
        required=False,
        empty_label="The firm's admins",
        label="Ask",
        help_text="This person gets an e-mail.",
    )

    def prepare(self, request: HttpRequest, row: DeadLetterQueue) -> None:
        """Offer the members of the dead letter's firm."""
        people = get_user_model().objects.filter(memberships__firm=row.firm_id, is_active=True)
        self.fields["to"].queryset = people.order_by(sign_in_field())  # type: ignore[attr-defined]  # a model choice field


def _resolved(row: DeadLetterQueue) -> str:
    return _sentence(dead_letters.why_not_decided(row))


def _escalated(row: DeadLetterQueue) -> str:
    return _sentence(dead_letters.why_not_escalated(row))


def _sentence(why_not: str) -> str:
    return why_not and f"This {why_not}."


def _escalation_report(row: DeadLetterQueue) -> str:
    told = escalation_recipients(row.firm_id, row.assigned_to)
    done = f"Escalated to {dead_letters.asked_about(row)}."
    return done if told else f"{done} {NO_RECIPIENTS}"


def _reprocess_effect(row: DeadLetterQueue) -> str:
    effect = (
        "The job returns to the queue with the payload below, and its attempts start from zero."
    )
    why = why_refused(row.original_job)
    refused = f"{effect} Unless you change it, the payload will be refused again ({why})."
    return refused if why else effect


REPROCESS = QueueOperation(
    name="reprocess",
    label="Reprocess",
    icon="replay",
    variant="primary",
    form=ReprocessForm,
    effect=_reprocess_effect,
    obstacle=_resolved,
    seen=lambda row: row.resolution,
    perform=dead_letters.reprocess,
    report=lambda row: (
        f"Reprocessed: {row.original_job.job_type} is {row.original_job.status} again."
    ),
)
DISCARD = QueueOperation(
    name="discard",
    label="Discard",
    icon="delete",
    variant="danger",
    effect="The job becomes failed and runs again only if somebody retries it.",
    obstacle=_resolved,
    seen=lambda row: row.resolution,
    perform=dead_letters.discard,
    report=lambda row: f"Discarded: {row.original_job.job_type} is failed.",
)
ESCALATE = QueueOperation(
    name="escalate",
    label="Escalate",
    icon="campaign",
    form=EscalateForm,
    effect="Somebody is asked by e-mail to decide. The dead letter stays open until then.",
    obstacle=_escalated,
    seen=lambda row: row.resolution,
    perform=dead_letters.escalate,
    report=_escalation_report,
)


def _reason(row: DeadLetterQueue) -> str:
    return row.reason.replace("_", " ")


def _resolution(row: DeadLetterQueue) -> str:
    return row.resolution or "open"


def _error(row: DeadLetterQueue) -> str:
    return f"{row.error_class}: {row.error}".strip(": ")


@admin.register(DeadLetterQueue)
class DeadLetterAdmin(SavedViewsAdmin, BulkOperationsAdmin):
    """Jobs that ended dead: open ones and resolved ones."""

    listing = Listing.DEAD_LETTERS
    operations = (REHEARSE, REPROCESS, ESCALATE, DISCARD)
    bulk_actions = (
        BulkAction(
            operation=BulkOperation.REPROCESS,
            label="Reprocess",
            icon="replay",
            variant="primary",
            form=RestartForm,
            effect="The jobs return to the queue with their payloads unchanged, and their "
            "attempts start from zero.",
        ),
        BulkAction(
            operation=BulkOperation.DISCARD,
            label="Discard",
            icon="delete",
            variant="danger",
            form=ReasonForm,
            effect="The jobs become failed and run again only if somebody retries them.",
        ),
    )
    change_form_template = "admin/jobs/deadletterqueue/page.html"
    list_display = ("dead_letter", "number", "cause", "resolved", "firm", "moved", "failure")
    list_select_related = ("firm", "original_job")
    list_filter = (
        ResolutionFilter,
        ReasonFilter,
        CategoryFilter,
        JobTypeFilter,
        DeadUserFilter,
        FirmFilter,
        MovedFilter,
        MovedPeriodFilter,
    )
    search_fields = ("fingerprint",)
    search = staticmethod(search_dead_letters)
    search_instead = staticmethod(partial(error_search, qualified=False))
    search_help_text = (
        "Job or dead letter id (or its beginning), fingerprint, error class, or error:TEXT"
    )
    ordering = ("-id",)
    dead_letter = column(
        "Dead letter",
        lambda row: [row.original_job.job_type, row.original_job.category],
        header=True,
    )
    number = column("Id", lambda row: copyable(row.pk))
    cause = column("Reason", lambda row: (row.reason, _reason(row)), label=LABELS)
    resolved = column("Resolution", _resolution, label=LABELS)
    moved = age_column("Moved", "moved_at")
    failure = column("Error", lambda row: error_line(error_in_words(row.error_class, row.error)))
    empty_text = "No dead letters."

    def get_queryset(self, request: HttpRequest) -> QuerySet[DeadLetterQueue]:
        """Do not fetch the jobs' large columns: only a row's own page needs them."""
        rows: QuerySet[DeadLetterQueue] = super().get_queryset(request)
        return rows.defer(*LARGE_COLUMNS_OF_JOB)

    def get_urls(self) -> list[URLPattern]:
        """Add the triage board."""
        board = self.admin_site.admin_view(self.groups_view)
        return [path("groups/", board, name=self.url_name("groups")), *super().get_urls()]

    def groups_view(self, request: HttpRequest) -> HttpResponse:
        """Show the triage board."""
        actions = self.bulk_actions if self.may(request, REPROCESS) else ()
        links = [(action, self.address(f"bulk_{action.name}")) for action in actions]
        return triage_board(request, links, self.address("changelist"))

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return why the job stopped, its resolution, and the dead letters of the same failure."""
        job = row.original_job
        return {
            **super().page_context(request, row),
            "title": job.job_type,
            "row": row,
            "job": job,
            "payload": pretty_json(job.payload, payload_mask(request, row.firm_id)),
            "reason": _reason(row),
            "reason_label": LABELS[row.reason],
            "resolution": _resolution(row),
            "resolution_label": LABELS[_resolution(row)],
            "runs_again": is_of_an_earlier_series(row),
            "traceback": last_traceback(row),
            "all_with_it": list_url("deadletterqueue", q=row.fingerprint),
            "same_failure": [(other, LABELS[_resolution(other)]) for other in same_failure(row)],
            "facts": _facts(row),
        }

    def respond(
        self, request: HttpRequest, operation: Operation, row: Any, made: Any
    ) -> HttpResponse:
        """Show the report of a rehearsal."""
        if operation is not REHEARSE:
            return super().respond(request, operation, row, made)
        may_reprocess = self.may(request, REPROCESS, row) and not REPROCESS.obstacle(row)
        reprocess = self.filtered_address(request, REPROCESS.name, row.pk) if may_reprocess else ""
        context = {
            **self.admin_site.each_context(request),
            **rehearsal_context(request, row, made, reprocess),
            "opts": self.opts,
            "back": self.filtered_address(request, "change", row.pk),
        }
        return TemplateResponse(request, "admin/jobs/deadletterqueue/rehearsal.html", context)

    def subject(self, row: DeadLetterQueue) -> str:
        """Return type, id and error."""
        error = _error(row)
        return f"{row.original_job.job_type} {row.pk}{': ' if error else ''}{error}"


def _facts(row: DeadLetterQueue) -> list[Fact]:
    job = row.original_job
    return [
        Fact("Dead letter id", row.pk, is_code=True),
        Fact("Job", job.job_id, job_url(job.job_id), is_code=True),
        Fact("Firm", firm_name(row)),
        Fact("Category", job.category),
        Fact("Attempts", attempts_made(row)),
        Fact("Series", row.job_series if row.job_series > 1 else None),
        Fact("Fingerprint", row.fingerprint, is_code=True),
        Fact("Moved", exact(row.moved_at)),
        Fact("Decided", exact(row.reviewed_at)),
        Fact("Decided by", row.reviewed_by.get_username() if row.reviewed_by else None),
        Fact("Assigned to", row.assigned_to.get_username() if row.assigned_to else None),
    ]
