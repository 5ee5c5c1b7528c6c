"""Reprocess, discard and escalate: what the admin does to a dead letter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib.auth import get_user_model
from unfold.widgets import UnfoldAdminSelectWidget

from jobs.admin.payload_field import PayloadField
from jobs.admin.refusals import refusals
from jobs.models import DeadLetterQueue
from jobs.operations import dead_letters
from jobs.operations.escalation_recipients import NOBODY_TOLD, addresses_to_tell
from jobs.queries.filters import OPEN_RESOLUTIONS
from jobs.states import Priority, Resolution
from tenants.admin.acts import Act, Answers, ReasonForm, TextAnswer
from tenants.audit import Actor

KEEP = ""


class ReprocessForm(forms.Form):
    """What may be changed on the way."""

    payload = PayloadField(
        help_text="Checked against the schema of its type. What changes is kept in the audit log. "
        "Hidden secrets stay as they are where you leave them in their place."
    )
    priority = forms.TypedChoiceField(
        required=False, coerce=int, empty_value=None, widget=UnfoldAdminSelectWidget()
    )
    note = TextAnswer(required=False, help_text="Kept with the dead letter and in the audit log.")

    def __init__(self, row: DeadLetterQueue, data: Mapping[str, Any] | None) -> None:
        super().__init__(data)
        job = row.original_job
        self.fields["payload"].show(job.payload)  # type: ignore[attr-defined]  # a payload field
        levels = [(str(level.value), level.name.lower()) for level in Priority]
        now = Priority(job.priority).name.lower()
        self.fields["priority"].choices = [  # type: ignore[attr-defined]  # a choice field
            (KEEP, f"As it is ({now})"),
            *levels,
        ]


class NoteForm(forms.Form):
    """A decision about several that may say why."""

    note = TextAnswer(required=False, help_text="Kept with each of them and in the audit log.")


class EscalateForm(ReasonForm):
    """Whom to ask to look, and why."""

    to = forms.ModelChoiceField(
        queryset=get_user_model().objects.none(),
        required=False,
        empty_label="The firm's admins",
        label="Ask",
        widget=UnfoldAdminSelectWidget(),
        help_text="Is told by e-mail.",
    )

    def __init__(self, row: DeadLetterQueue, data: Mapping[str, Any] | None) -> None:
        super().__init__(data)
        people = get_user_model().objects.filter(memberships__firm=row.firm_id, is_active=True)
        self.fields["to"].queryset = people.order_by("username")  # type: ignore[attr-defined]  # a model choice field


class Decision(Act):
    """Decides about a dead letter that is open."""

    def obstacle(self, row: DeadLetterQueue) -> str:
        """Allow while nobody decided."""
        if row.resolution in OPEN_RESOLUTIONS:
            return ""
        who = f" by {row.reviewed_by.get_username()}" if row.reviewed_by else ""
        return f"This was decided already: {row.resolution}{who}."

    def seen(self, row: DeadLetterQueue) -> str:
        """Rest on what was decided: each opening is a row of its own."""
        return row.resolution


class Reprocess(Decision):
    """Sends the job round again."""

    name = "reprocess"
    label = "Reprocess"
    done = "reprocessed"
    icon = "replay"
    variant = "primary"
    bulk_form_class = NoteForm

    def form(self, row: DeadLetterQueue, data: Mapping[str, Any] | None = None) -> forms.Form:
        """Ask with the payload in an editor."""
        return ReprocessForm(row, data)

    def consequence(self, row: DeadLetterQueue | None) -> str:
        """Say that it starts over."""
        if row is None:
            return "Their jobs go round again as they are, and their attempts start over."
        return "Its job goes round again with the payload below, and its attempts start over."

    def perform(self, row: DeadLetterQueue, answers: Answers, by: Actor) -> None:
        """Start a new series of the job."""
        with refusals():
            dead_letters.reprocess(
                row,
                by=by,
                payload=answers.get("payload"),
                priority=answers.get("priority"),
                note=answers["note"],
            )

    def told(self, row: DeadLetterQueue) -> str:
        """Say that its job waits again."""
        return f"Reprocessed: {row.original_job.job_type} is {row.original_job.status} again."


class Discard(Decision):
    """Gives the job up for good."""

    name = "discard"
    label = "Discard"
    done = "discarded"
    icon = "delete"
    variant = "danger"

    def consequence(self, row: DeadLetterQueue | None) -> str:
        """Say that the job is over."""
        if row is None:
            return "Their jobs are given up for good and become failed."
        return "Its job is given up for good and becomes failed."

    def perform(self, row: DeadLetterQueue, answers: Answers, by: Actor) -> None:
        """Discard the dead letter."""
        with refusals():
            dead_letters.discard(row, answers["reason"], by=by)

    def told(self, row: DeadLetterQueue) -> str:
        """Say that it is over."""
        return f"Discarded: {row.original_job.job_type} is given up."


class Escalate(Decision):
    """Asks somebody to look."""

    name = "escalate"
    label = "Escalate"
    done = "escalated"
    icon = "campaign"

    def obstacle(self, row: DeadLetterQueue) -> str:
        """Allow once while it is open."""
        if row.resolution == Resolution.ESCALATED:
            return "This was escalated already; it waits for a decision."
        return super().obstacle(row)

    def form(self, row: DeadLetterQueue, data: Mapping[str, Any] | None = None) -> forms.Form:
        """Ask for the reason and the person."""
        return EscalateForm(row, data)

    def consequence(self, row: DeadLetterQueue | None) -> str:
        """Say that it stays open."""
        return "Somebody is asked by e-mail to look at it. It stays open for a decision."

    def perform(self, row: DeadLetterQueue, answers: Answers, by: Actor) -> None:
        """Escalate the dead letter."""
        with refusals():
            dead_letters.escalate(row, answers["reason"], to=answers["to"], by=by)

    def told(self, row: DeadLetterQueue) -> str:
        """Say who is asked."""
        asked = row.assigned_to.get_username() if row.assigned_to else "the firm's admins"
        told = addresses_to_tell(row.firm_id, row.assigned_to)
        return f"Escalated to {asked}." if told else f"Escalated to {asked}. {NOBODY_TOLD}"
