"""Reprocess, escalate and discard: what operators do to a dead letter."""

from __future__ import annotations

from django import forms
from django.contrib.auth import get_user_model
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminSelectWidget

from interfaces.admin.operations import Answers, OperationForm, ReasonForm, TextAnswer
from jobs.admin.operations import QueueOperation
from jobs.admin.payload_field import PayloadField
from jobs.models import DeadLetterQueue
from jobs.operations import dead_letters
from jobs.operations.escalation import NO_RECIPIENTS, escalation_recipients
from jobs.states import OPEN_RESOLUTIONS, Priority, Resolution
from tenants.audit import Actor


class ReprocessForm(OperationForm):
    """The payload and priority of the new series."""

    payload = PayloadField(
        help_text="Checked against the schema of its type. What changes is kept in the audit log. "
        "Hidden secrets stay as they are where you leave them in their place."
    )
    priority = forms.TypedChoiceField(
        required=False, coerce=int, empty_value=None, widget=UnfoldAdminSelectWidget()
    )
    note = TextAnswer(required=False, help_text="Kept with the dead letter and in the audit log.")

    def prepare(self, request: HttpRequest, row: DeadLetterQueue) -> None:
        """Start from the job's payload and priority."""
        job = row.original_job
        self.fields["payload"].show(job.payload)  # type: ignore[attr-defined]  # a payload field
        now = Priority(job.priority).name.lower()
        self.fields["priority"].choices = [  # type: ignore[attr-defined]  # a choice field
            ("", f"As it is ({now})"),
            *((str(level.value), level.name.lower()) for level in Priority),
        ]


class NoteForm(OperationForm):
    """An optional note on several dead letters."""

    note = TextAnswer(required=False, help_text="Kept with each of them and in the audit log.")


class EscalateForm(ReasonForm):
    """Whom to ask, and why."""

    to = forms.ModelChoiceField(
        queryset=get_user_model().objects.none(),
        required=False,
        empty_label="The firm's admins",
        label="Ask",
        widget=UnfoldAdminSelectWidget(),
        help_text="Is told by e-mail.",
    )

    def prepare(self, request: HttpRequest, row: DeadLetterQueue) -> None:
        """Offer the members of the dead letter's firm."""
        people = get_user_model().objects.filter(memberships__firm=row.firm_id, is_active=True)
        self.fields["to"].queryset = people.order_by("username")  # type: ignore[attr-defined]  # a model choice field


def _resolved(row: DeadLetterQueue) -> str:
    if row.resolution in OPEN_RESOLUTIONS:
        return ""
    who = f" by {row.reviewed_by.get_username()}" if row.reviewed_by else ""
    return f"This was decided already: {row.resolution}{who}."


def _escalated(row: DeadLetterQueue) -> str:
    if row.resolution == Resolution.ESCALATED:
        return "This was escalated already; it waits for a decision."
    return _resolved(row)


def _reprocess_effect(row: DeadLetterQueue | None) -> str:
    if row is None:
        return "Their jobs go round again as they are, and their attempts start over."
    return "Its job goes round again with the payload below, and its attempts start over."


def _discard_effect(row: DeadLetterQueue | None) -> str:
    if row is None:
        return "Their jobs are given up for good and become failed."
    return "Its job is given up for good and becomes failed."


def _reprocess(row: DeadLetterQueue, answers: Answers, by: Actor) -> None:
    dead_letters.reprocess(
        row,
        by=by,
        payload=answers.get("payload"),
        priority=answers.get("priority"),
        note=answers["note"],
    )


def _escalation_report(row: DeadLetterQueue) -> str:
    asked = row.assigned_to.get_username() if row.assigned_to else "the firm's admins"
    told = escalation_recipients(row.firm_id, row.assigned_to)
    return f"Escalated to {asked}." if told else f"Escalated to {asked}. {NO_RECIPIENTS}"


REPROCESS = QueueOperation(
    name="reprocess",
    label="Reprocess",
    done="reprocessed",
    icon="replay",
    variant="primary",
    form=ReprocessForm,
    bulk_form=NoteForm,
    effect=_reprocess_effect,
    obstacle=_resolved,
    seen=lambda row: row.resolution,
    perform=_reprocess,
    report=lambda row: (
        f"Reprocessed: {row.original_job.job_type} is {row.original_job.status} again."
    ),
)
DISCARD = QueueOperation(
    name="discard",
    label="Discard",
    done="discarded",
    icon="delete",
    variant="danger",
    effect=_discard_effect,
    obstacle=_resolved,
    seen=lambda row: row.resolution,
    perform=lambda row, answers, by: dead_letters.discard(row, answers["reason"], by=by),
    report=lambda row: f"Discarded: {row.original_job.job_type} is given up.",
)
ESCALATE = QueueOperation(
    name="escalate",
    label="Escalate",
    icon="campaign",
    form=EscalateForm,
    effect="Somebody is asked by e-mail to look at it. It stays open for a decision.",
    obstacle=_escalated,
    seen=lambda row: row.resolution,
    perform=lambda row, answers, by: dead_letters.escalate(
        row, answers["reason"], to=answers["to"], by=by
    ),
    report=_escalation_report,
)
