"""Editing a waiting job in the admin."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest

from interfaces.admin.operations import OptionalReasonForm
from interfaces.admin.time_answer import TimeAnswer
from jobs.admin.base import QueueOperation, digest, exact
from jobs.admin.payload_field import JobChangesForm
from jobs.models import JobQueue
from jobs.operations.edit import edit
from jobs.states import Status


class EditForm(JobChangesForm, OptionalReasonForm):
    """The changes to a waiting job."""

    run_now = forms.BooleanField(required=False, help_text="The job becomes due at once.")
    scheduled_at = TimeAnswer(required=False, label="Not before (UTC)")
    field_order = ("priority", "run_now", "scheduled_at", "payload", "reason")

    def prepare(self, request: HttpRequest, row: JobQueue) -> None:
        """Start from the job as it is."""
        super().prepare(request, row)
        now = f"Leave empty to keep {exact(row.scheduled_at)}."
        self.fields["scheduled_at"].help_text = now


def _not_editable(job: JobQueue) -> str:
    if job.status == Status.PENDING:
        return ""
    return f"The job is {job.status}; only a pending one can be edited."


def _seen(job: JobQueue) -> str:
    """Return a digest of what the form shows."""
    shown = [job.status, job.priority, exact(job.scheduled_at), job.payload]
    return digest(shown)


EDIT = QueueOperation(
    name="edit",
    label="Edit",
    icon="edit",
    form=EditForm,
    effect="The job is changed before a worker starts it. Lock and limit keys that its type "
    "derives from the payload change with it; the idempotency key stays.",
    obstacle=_not_editable,
    seen=_seen,
    perform=edit,
    report=lambda job: f"{job.job_type} is due {exact(job.scheduled_at)}.",
)
