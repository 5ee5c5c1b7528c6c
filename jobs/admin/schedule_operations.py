"""What operators do to schedules: create, change, run now, pause, resume."""

from __future__ import annotations

import hashlib
from typing import Any

from django import forms
from django.http import HttpRequest
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from interfaces.admin.operations import Answers, OperationForm, OptionalReasonForm
from jobs import registry
from jobs.admin.base import type_choices
from jobs.admin.operations import QueueOperation
from jobs.admin.payload_field import PayloadField
from jobs.engine.redaction import canonical_json
from jobs.models import Schedule
from jobs.models.schedule import MAX_CRON_LENGTH
from jobs.operations import schedules
from jobs.schedules.groups import group_names
from jobs.states import MissedRuns, Priority, ScheduleTarget
from tenants.admin.firm_choice import FirmChoiceForm
from tenants.audit import Actor
from tenants.models import Firm, Role


class TimetableForm(OperationForm):
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


class NewScheduleForm(FirmChoiceForm, TimetableForm):
    """Whom a new schedule is for, what it enqueues, and when."""

    role = Role.DEVELOPER
    field_order = ("everywhere", "firm", "name", "job_type", "group_name")

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


class ChangeScheduleForm(TimetableForm, OptionalReasonForm):
    """A schedule's timetable and payload, as they are and as they should be."""

    field_order = (*TimetableForm.base_fields, "reason")

    def prepare(self, request: HttpRequest, row: Schedule) -> None:
        """Start from the schedule as it is."""
        self.initial = _timetable(row)
        self.fields["payload"].show(self.initial.pop("payload"))  # type: ignore[attr-defined]  # a payload field


def _timetable(row: Schedule) -> dict[str, Any]:
    return {name: getattr(row, name) for name in TimetableForm.base_fields}


def _create(_: None, answers: Answers, by: Actor) -> Schedule:
    columns = dict(answers)
    owner = columns.pop("firm")
    if columns["group_name"]:
        target = ScheduleTarget.EVERY_MEMBER
    else:
        target = ScheduleTarget.EVERY_FIRM if owner is None else ScheduleTarget.FIRM
    return schedules.create_schedule(
        firm=owner or Firm.objects.system(),
        target=target,
        by=by,
        **{**columns, "payload": columns["payload"] or {}},
    )


def _change(row: Schedule, answers: Answers, by: Actor) -> None:
    columns = dict(answers)
    reason = columns.pop("reason")
    if columns["payload"] is None:
        del columns["payload"]
    schedules.change_schedule(row, by=by, reason=reason, **columns)


def _change_seen(row: Schedule) -> str:
    """Return a digest of what the form shows: every run writes other columns of the row."""
    return hashlib.blake2b(canonical_json(_timetable(row)).encode(), digest_size=16).hexdigest()


def _not_runnable(row: Schedule) -> str:
    if registry.find(row.job_type) is None:
        return f"No code here knows the type {row.job_type}."
    return "" if row.firm.active else f"The firm {row.firm.name} is not active."


NEW = QueueOperation(
    name="new",
    label="New schedule",
    icon="add",
    variant="primary",
    role=Role.DEVELOPER,
    form=NewScheduleForm,
    effect="Its first run is the first that comes from now on.",
    perform=_create,
    report=lambda row: f"{row.name} runs next at {row.next_run_at:%Y-%m-%d %H:%M:%S} UTC.",
)
CHANGE = QueueOperation(
    name="edit",
    label="Change",
    icon="edit",
    role=Role.DEVELOPER,
    form=ChangeScheduleForm,
    effect="A new timetable begins with its first run from now on. Jobs that wait stay.",
    seen=_change_seen,
    perform=_change,
    report=lambda row: f"{row.name} is changed.",
)
RUN = QueueOperation(
    name="run",
    label="Run now",
    icon="play_arrow",
    variant="primary",
    form=OptionalReasonForm,
    effect="It runs once, now. Its next run stays as it is planned, and a paused one paused.",
    obstacle=_not_runnable,
    seen=lambda row: str(row.last_run_at),
    perform=lambda row, answers, by: schedules.run_now(row, by=by, reason=answers["reason"]),
    report=lambda row: f"{row.name} was run.",
)
PAUSE = QueueOperation(
    name="pause",
    label="Pause",
    icon="pause",
    form=OptionalReasonForm,
    effect="It leads to no more jobs until somebody resumes it. Jobs that wait already stay.",
    obstacle=lambda row: "" if row.enabled else "The schedule is paused already.",
    seen=lambda row: str(row.enabled),
    perform=lambda row, answers, by: schedules.pause(row, by=by, reason=answers["reason"]),
    report=lambda row: f"{row.name} is paused.",
)
RESUME = QueueOperation(
    name="resume",
    label="Resume",
    icon="play_circle",
    variant="primary",
    form=OptionalReasonForm,
    effect="It goes on with its next run. What passed while it was paused is not made up for.",
    obstacle=lambda row: "The schedule is not paused." if row.enabled else "",
    seen=lambda row: str(row.enabled),
    perform=lambda row, answers, by: schedules.resume(row, by=by, reason=answers["reason"]),
    report=lambda row: f"{row.name} runs again, next at {row.next_run_at:%Y-%m-%d %H:%M:%S} UTC.",
)
