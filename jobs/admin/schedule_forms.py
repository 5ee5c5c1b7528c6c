"""Making schedules and changing them in the admin."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from django import forms
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from jobs.admin.base import type_choices
from jobs.admin.payload_field import PayloadField
from jobs.admin.refusals import refusals
from jobs.engine.masks import spelled
from jobs.errors import ScheduleInvalid
from jobs.models import Schedule
from jobs.models.schedule import MAX_CRON_LENGTH
from jobs.operations import schedules
from jobs.schedules.groups import group_names
from jobs.states import MissedRuns, Priority, ScheduleTarget
from tenants.access import Access
from tenants.admin.acts import Act, ActRefused, Answers, OptionalReasonForm
from tenants.admin.firm_choice import FirmChoiceForm
from tenants.admin.list_acts import ListAct
from tenants.audit import Actor
from tenants.models import Firm, Role


class TimetableFields(forms.Form):
    """When a schedule runs, and with what."""

    name = forms.CharField(max_length=100, widget=UnfoldAdminTextInputWidget())
    cron = forms.CharField(
        required=False,
        max_length=MAX_CRON_LENGTH,
        empty_value=None,
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": "30 2 * * MON-FRI"}),
        help_text="Minute, hour, day, month, weekday; either this or an interval.",
    )
    interval_seconds = forms.IntegerField(
        required=False, label="Interval in seconds", widget=UnfoldAdminIntegerFieldWidget()
    )
    time_zone = forms.CharField(
        initial="UTC",
        max_length=50,
        widget=UnfoldAdminTextInputWidget(),
        help_text="The zone whose clock the cron expression names, such as Europe/Vienna.",
    )
    payload = PayloadField(
        required=False,
        rows=4,
        help_text="What each run's jobs carry, as a JSON object; the envelope is filled in.",
    )
    priority = forms.TypedChoiceField(
        coerce=int,
        initial=Priority.NORMAL,
        choices=[(level.value, level.name.lower()) for level in Priority],
        widget=UnfoldAdminSelectWidget(),
    )
    missed_runs = forms.ChoiceField(
        choices=[(MissedRuns.SKIP, "are skipped"), (MissedRuns.RUN_ONCE, "are made up for once")],
        label="Runs missed while no worker was there",
        widget=UnfoldAdminSelectWidget(),
    )


class NewScheduleForm(FirmChoiceForm, TimetableFields):
    """Whom a new schedule is for, what it enqueues, and when."""

    job_type = forms.ChoiceField(
        label="Type", choices=type_choices, widget=UnfoldAdminSelectWidget()
    )
    group_name = forms.ChoiceField(
        required=False,
        label="For every",
        choices=lambda: [("", "firm"), *((name, name) for name in group_names())],
        widget=UnfoldAdminSelectWidget(),
        help_text="One job a run for each of these; else one for the firm.",
    )
    field_order = ("everywhere", "firm", "name", "job_type", "group_name")

    def __init__(self, access: Access, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(access, Role.DEVELOPER, data)
        self.order_fields(list(self.field_order))


class ChangeScheduleForm(TimetableFields, OptionalReasonForm):
    """A schedule's timetable and payload, as they are and as they should be."""

    field_order = (*TimetableFields.base_fields, "reason")


class NewSchedule(ListAct):
    """Makes a schedule."""

    name = "new"
    label = "New schedule"
    icon = "add"
    text = "Its first run is the first that comes from now on."
    needed = Role.DEVELOPER

    def form(self, access: Access, data: Mapping[str, Any] | None = None) -> forms.Form:
        """Ask for everything."""
        return NewScheduleForm(access, data)

    def perform(self, answers: Answers, by: Actor) -> str:
        """Store it."""
        columns = dict(answers)
        owner = columns.pop("firm")
        with _faults_at_their_fields(NewScheduleForm):
            made = schedules.create_schedule(
                firm=owner or Firm.objects.system(),
                target=_target(columns["group_name"], everywhere=owner is None),
                by=by,
                **{**columns, "payload": columns["payload"] or {}},
            )
        return f"{made.name} runs next at {made.next_run_at:%Y-%m-%d %H:%M:%S} UTC."


class ChangeSchedule(Act):
    """Changes a schedule's timetable or payload."""

    name = "edit"
    label = "Change"
    done = "changed"
    icon = "edit"
    needed = Role.DEVELOPER
    form_class = ChangeScheduleForm

    def form(self, row: Schedule, data: Mapping[str, Any] | None = None) -> forms.Form:
        """Start from what is there."""
        columns = _shown(row)
        payload = columns.pop("payload")
        form = ChangeScheduleForm(data, initial=columns)
        form.fields["payload"].show(payload)  # type: ignore[attr-defined]  # a payload field
        return form

    def consequence(self, row: Schedule | None) -> str:
        """Say when a new timetable begins."""
        return "A new timetable begins with its first run from now on. Jobs that wait stay."

    def seen(self, row: Schedule) -> str:
        """Rest on what the form shows: the row itself is written with every run."""
        return hashlib.blake2b(spelled(_shown(row)).encode(), digest_size=16).hexdigest()

    def perform(self, row: Schedule, answers: Answers, by: Actor) -> None:
        """Store the changes."""
        columns = dict(answers)
        reason = columns.pop("reason")
        if columns["payload"] is None:
            del columns["payload"]
        with _faults_at_their_fields(ChangeScheduleForm):
            schedules.change_schedule(row, by=by, reason=reason, **columns)

    def told(self, row: Schedule) -> str:
        """Say that it was changed."""
        return f"{row.name} is changed."


def _shown(row: Schedule) -> dict[str, Any]:
    return {name: getattr(row, name) for name in TimetableFields.base_fields}


def _target(group_name: str, *, everywhere: bool) -> ScheduleTarget:
    if group_name:
        return ScheduleTarget.EVERY_MEMBER
    return ScheduleTarget.EVERY_FIRM if everywhere else ScheduleTarget.FIRM


@contextmanager
def _faults_at_their_fields(form: type[forms.Form]) -> Iterator[None]:
    """Put what is refused at the field it is about, where it is about one of the form."""
    with refusals():
        try:
            yield
        except ScheduleInvalid as error:
            fields = {fault.field.partition(".")[0] for fault in error.faults}
            one = (
                next(iter(fields))
                if len(fields) == 1 and fields <= form.base_fields.keys()
                else None
            )
            lines = [
                fault.message if fault.field == one else f"{fault.field}: {fault.message}"
                for fault in error.faults
            ]
            raise ActRefused(*lines, field=one, status=HTTPStatus.BAD_REQUEST) from error
