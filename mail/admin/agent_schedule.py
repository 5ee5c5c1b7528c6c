"""Agent schedules in the admin; a mailbox's schedules are shown to its readers only."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from interfaces.admin.base import code_block, column
from interfaces.admin.operations import OperationForm, OptionalReasonForm
from jobs.admin.base import age, age_column
from mail.admin.filters import EnabledFilter
from mail.admin.operation import ChangeRow, DeleteRow, NewRow
from mail.admin.scoped import MailboxChoice, NewScopedForm, ScopedAdmin, may_make
from mail.admin.timetable_form import TimetableFields, timetable_text
from mail.models import AgentProfile, AgentSchedule
from mail.models.agent_schedule import MAX_NAME_LENGTH, MAX_PROMPT_LENGTH
from mail.services.agents import schedules
from tenants.admin.base import FirmFilter
from tenants.models import Firm, Role


class AgentScheduleForm(TimetableFields):
    """What an agent is asked, in which mailbox, and when."""

    from_row = (
        "name", "account_id", "profile_id", "prompt", "enabled", *TimetableFields.from_row,
    )  # fmt: skip
    name = forms.CharField(max_length=MAX_NAME_LENGTH)
    account_id = MailboxChoice()
    profile_id = forms.ModelChoiceField(
        queryset=AgentProfile.objects.unscoped("set for each form").none(), label="Agent"
    )
    prompt = forms.CharField(
        max_length=MAX_PROMPT_LENGTH,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text="What the agent is asked each time.",
    )
    enabled = forms.BooleanField(required=False, initial=True)

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Offer mailboxes that the user may read, and the agents."""
        super().prepare(request, row)
        profiles = AgentProfile.objects.order_by("name", "pk")
        if row is not None:
            profiles = profiles.filter(firm_id=row.firm_id)
        self.fields["account_id"].offer(request, row)  # type: ignore[attr-defined]
        self.fields["profile_id"].queryset = profiles  # type: ignore[attr-defined]

    def clean_profile_id(self) -> UUID:
        """Return the profile's id."""
        chosen: UUID = self.cleaned_data["profile_id"].pk
        return chosen


class _PersonField(OperationForm):
    """On whose behalf a new schedule runs."""

    personal = forms.BooleanField(
        required=False,
        label="On my behalf",
        help_text="The agent runs for you: the schedule stops when you leave the firm and is "
        "deleted with your account. Otherwise it belongs to the firm.",
    )


_FIELDS = (
    "name", "account_id", "profile_id", "prompt", *TimetableFields.base_fields, "enabled",
)  # fmt: skip


class NewAgentScheduleForm(NewScopedForm, AgentScheduleForm, _PersonField):
    """The new schedule's firm and settings."""

    field_order = ("firm", *_FIELDS, "personal")


class ChangeAgentScheduleForm(OptionalReasonForm, AgentScheduleForm):
    """A schedule as it is and as it should be."""

    field_order = (*_FIELDS, "reason")


def _create(*, firm: Firm, by: Any, personal: bool, **settings: Any) -> AgentSchedule:
    may_make(firm, settings["account_id"], by)
    user_id = by.user_id if personal else None
    return schedules.create_agent_schedule(firm.pk, by=by, user_id=user_id, **settings)


def _change(row: AgentSchedule, *, by: Any, **settings: Any) -> AgentSchedule:
    # Checked again, because the new mailbox may be another person's.
    may_make(row.firm, settings["account_id"], by)
    return schedules.change_agent_schedule(row, by=by, **settings)


NEW = NewRow(
    label="New agent schedule",
    role=Role.VIEWER,
    form=NewAgentScheduleForm,
    effect="The agent works in the mailbox whenever the schedule is due. Its profile says what "
    "it may do.",
    perform=_create,
    report=lambda row: f"{row.name} is stored.",
)
OPERATIONS = (
    ChangeRow(
        variant="primary",
        form=ChangeAgentScheduleForm,
        effect="The change takes effect with the next run. A run that already waits in the queue "
        "uses the old settings, unless the mailbox is private.",
        perform=_change,
        report=lambda row: f"{row.name} is changed.",
    ),
    DeleteRow(
        effect="The schedule is deleted. Its runs stay. Runs that wait in the queue are canceled.",
        perform=schedules.delete_agent_schedule,
        report=lambda row: f"{row.name} is deleted.",
    ),
)


@admin.register(AgentSchedule)
class AgentScheduleAdmin(ScopedAdmin):
    """The schedules by which agents run."""

    empty_text = "No agent works by a timetable."
    list_operations = (NEW,)
    operations = OPERATIONS
    list_display = ("name", "profile", "account", "repeats", "due", "enabled", "firm")
    list_select_related = ("firm", "account", "profile", "user")
    list_filter = (EnabledFilter, FirmFilter)
    search_fields = ("name__icontains",)
    search_help_text = "Part of the name"
    ordering = ("name", "pk")
    fields = (
        "name", "account", "profile", "asked", "repeats", "due_at", "queued_at", "behalf", "enabled",
        "stopped",        "firm", "changed_at", "created_at",
    )  # fmt: skip
    asked = column("Asked", lambda row: code_block(row.prompt))
    repeats = column("Runs", timetable_text)
    due = column("Next", lambda row: age(row.due_at))
    behalf = column("On behalf of", lambda row: row.user or "the firm")
    changed = age_column("Changed", "changed_at")
