"""Schedules in the admin: what each enqueues and when; create, change, run now, pause, resume."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from interfaces.admin.base import column
from interfaces.admin.operations import OperationForm, OptionalReasonForm
from jobs.admin.base import (
    LABELS,
    Fact,
    QueueOperation,
    age,
    age_column,
    digest,
    exact,
    payload_mask,
    pretty_json,
    type_choices,
)
from jobs.admin.payload_field import PayloadField
from jobs.admin.schedule_run import latest_runs
from jobs.models import Schedule
from jobs.operations import schedules
from jobs.operations.enqueue import role_to_enqueue
from jobs.queries.serializers.schedules import next_runs, timetable_in_words
from jobs.registry import find
from jobs.registry.timetable import MAX_CRON_LENGTH, TimetableInvalid
from jobs.schedules.groups import find_group, group_names
from jobs.states import PRIORITY_CHOICES, MissedRuns, Priority, ScheduleTarget
from tenants.admin.base import FirmFilter, TenantOperationsAdmin
from tenants.admin.firm_choice import FirmChoiceForm
from tenants.models import Firm, Role

REACHES = {
    ScheduleTarget.FIRM: "the firm",
    ScheduleTarget.EVERY_FIRM: "every active firm",
    ScheduleTarget.EVERY_MEMBER: "every {}",
}


class TimetableForm(OperationForm):
    """When a schedule runs, and with what."""

    name = forms.CharField(max_length=100)
    cron = forms.CharField(
        required=False,
        max_length=MAX_CRON_LENGTH,
        empty_value=None,
        widget=forms.TextInput(attrs={"placeholder": "30 2 * * MON-FRI"}),
        help_text="Minute, hour, day, month, weekday. Give either this or an interval.",
    )
    interval_seconds = forms.IntegerField(required=False, label="Interval in seconds")
    time_zone = forms.CharField(
        initial="UTC",
        max_length=50,
        help_text="The time zone of the cron expression, such as Europe/Vienna.",
    )
    payload = PayloadField(
        required=False,
        rows=4,
        help_text="The payload of each run's jobs, as a JSON object. The envelope is filled in.",
    )
    priority = forms.TypedChoiceField(
        coerce=int,
        initial=Priority.NORMAL,
        choices=PRIORITY_CHOICES,
    )
    missed_runs = forms.ChoiceField(
        choices=[(MissedRuns.SKIP, "are skipped"), (MissedRuns.RUN_ONCE, "lead to one run")],
        label="Runs missed while no worker was running",
    )


class NewScheduleForm(FirmChoiceForm, TimetableForm):
    """Whom a new schedule is for, what it enqueues, and when."""

    role = Role.DEVELOPER
    field_order = ("everywhere", "firm", "name", "job_type", "group_name")

    job_type = forms.ChoiceField(label="Type", choices=type_choices)
    group_name = forms.ChoiceField(
        required=False,
        label="For every",
        choices=lambda: [("", "firm"), *((name, name) for name in group_names())],
        help_text="Each run enqueues one job for each of these; “firm” means one job.",
    )

    def clean(self) -> dict[str, Any]:
        """Refuse a type that needs a higher role in the firm."""
        answers = super().clean()
        self.check_role(role_to_enqueue(answers.get("job_type", "")), at="job_type")
        return answers


class ChangeScheduleForm(TimetableForm, OptionalReasonForm):
    """A schedule's timetable and payload, to be edited."""

    field_order = (*TimetableForm.base_fields, "reason")

    def prepare(self, request: HttpRequest, row: Schedule) -> None:
        """Start from the schedule as it is."""
        self.initial = _timetable(row)
        self.fields["payload"].show(self.initial.pop("payload"))  # type: ignore[attr-defined]  # a payload field


def _timetable(row: Schedule) -> dict[str, Any]:
    return {name: getattr(row, name) for name in TimetableForm.base_fields}


def _create(
    *, firm: Firm | None, group_name: str, payload: dict[str, Any] | None, **answers: Any
) -> Schedule:
    target = ScheduleTarget.EVERY_FIRM if firm is None else ScheduleTarget.FIRM
    return schedules.create_schedule(
        firm=firm or Firm.objects.system(),
        target=ScheduleTarget.EVERY_MEMBER if group_name else target,
        group_name=group_name,
        payload=payload or {},
        **answers,
    )


def _change(row: Schedule, *, payload: dict[str, Any] | None, **answers: Any) -> None:
    if payload is not None:
        answers["payload"] = payload
    schedules.change_schedule(row, **answers)


def _seen_timetable(row: Schedule) -> str:
    """Return a digest of what the form shows; not of the whole row, which each run changes."""
    return digest(_timetable(row))


def _not_runnable(row: Schedule) -> str:
    if find(row.job_type) is None:
        return f"The type {row.job_type} is not known here."
    return "" if row.firm.active else f"The firm {row.firm.name} is not active."


NEW = QueueOperation(
    name="new",
    label="New schedule",
    icon="add",
    variant="primary",
    role=Role.DEVELOPER,
    form=NewScheduleForm,
    effect="The schedule's next run is its first one after now.",
    perform=_create,
    report=lambda row: f"{row.name} runs next at {exact(row.next_run_at)}.",
)
CHANGE = QueueOperation(
    name="edit",
    label="Change",
    icon="edit",
    role=Role.DEVELOPER,
    form=ChangeScheduleForm,
    effect="With a new timetable, the schedule's next run is its first one after now. Jobs that "
    "are waiting stay.",
    seen=_seen_timetable,
    perform=_change,
    report=lambda row: f"{row.name} is changed.",
)
RUN = QueueOperation(
    name="run",
    label="Run now",
    icon="play_arrow",
    variant="primary",
    form=OptionalReasonForm,
    effect="The schedule runs once, now. Its next planned run does not change; a paused schedule "
    "stays paused.",
    obstacle=_not_runnable,
    seen=lambda row: str(row.last_run_at),
    perform=schedules.run_now,
    report=lambda row: f"{row.name} was run.",
)
PAUSE = QueueOperation(
    name="pause",
    label="Pause",
    icon="pause",
    form=OptionalReasonForm,
    effect="The schedule enqueues no more jobs until somebody resumes it. Jobs that are waiting "
    "stay.",
    obstacle=lambda row: "" if row.enabled else "The schedule is paused already.",
    perform=schedules.pause,
    report=lambda row: f"{row.name} is paused.",
)
RESUME = QueueOperation(
    name="resume",
    label="Resume",
    icon="play_circle",
    variant="primary",
    form=OptionalReasonForm,
    effect="The schedule goes on with its next run. Runs that it missed while paused are skipped.",
    obstacle=lambda row: "The schedule is not paused." if row.enabled else "",
    perform=schedules.resume,
    report=lambda row: f"{row.name} is resumed; its next run is at {exact(row.next_run_at)}.",
)


def _state(row: Schedule) -> str:
    if not row.enabled:
        return "paused"
    return "fails" if row.last_error else "runs"


def _reach(row: Schedule) -> str:
    group = find_group(row.group_name)
    return REACHES[ScheduleTarget(row.target)].format(group.member if group else row.group_name)


def _timetable_text(row: Schedule) -> str:
    return timetable_in_words(row) or "its timetable cannot be read"


@admin.register(Schedule)
class ScheduleAdmin(TenantOperationsAdmin):
    """Recurring jobs."""

    operations = (RUN, PAUSE, RESUME, CHANGE)
    list_operations = (NEW,)
    change_form_template = "admin/jobs/schedule/page.html"
    list_select_related = ("firm",)
    empty_text = "No schedules. Those that job types declare are stored when a worker starts."
    list_display = ("title", "state", "firm", "reaches", "runs", "next_run", "last_run")
    list_filter = (FirmFilter,)
    search_fields = ("name__icontains",)
    search_help_text = "Part of the name"
    ordering = ("-id",)
    title = column("Schedule", lambda row: [row.name, row.job_type], header=True)
    state = column("State", _state, label=LABELS)
    reaches = column("For", _reach)
    # The cron expression shows on hover.
    runs = column(
        "Runs",
        lambda row: format_html('<span title="{}">{}</span>', row.cron or "", _timetable_text(row)),
    )
    next_run = column("Next run", lambda row: age(row.next_run_at) if row.enabled else "-")
    last_run = age_column("Last run", "last_run_at")

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return the schedule's timetable, next runs and payload."""
        return {
            **super().page_context(request, row),
            "title": row.name,
            "schedule": row,
            "state": _state(row),
            "state_label": LABELS[_state(row)],
            "timetable": _timetable_text(row),
            "next_runs": _next_runs(row),
            "runs": latest_runs(row),
            "runs_url": f"{reverse('admin:jobs_schedulerun_changelist')}?q={row.pk}",
            "payload": pretty_json(row.payload, payload_mask(request, row.firm_id)),
            "facts": _facts(row),
        }

    def subject(self, row: Schedule) -> str:
        """Return the schedule's name and the type of its jobs."""
        return f"{row.name} ({row.job_type})"


def _next_runs(row: Schedule) -> list[tuple[str, str]]:
    """Return the next runs in the schedule's time zone, each with the time until then."""
    try:
        zone = row.timetable().zone
    except TimetableInvalid:
        return []
    return [
        (f"{slot.astimezone(zone):%a %Y-%m-%d %H:%M:%S %Z}", age(slot)) for slot in next_runs(row)
    ]


def _facts(row: Schedule) -> list[Fact]:
    jobs = reverse("admin:jobs_jobqueue_changelist")
    return [
        Fact("Firm", row.firm.name, reverse("admin:tenants_firm_change", args=[row.firm_id])),
        Fact("For", _reach(row)),
        # The list filters by the types that this code knows.
        Fact("Type", row.job_type, f"{jobs}?type={row.job_type}" if find(row.job_type) else ""),
        Fact("Jobs", "its latest jobs", f"{jobs}?q=schedule:{row.pk}"),
        Fact("Priority", Priority(row.priority).word),
        Fact("Cron", row.cron, is_code=True),
        Fact("Interval", f"{row.interval_seconds} s" if row.interval_seconds else None),
        Fact("Time zone", row.time_zone),
        Fact("Missed runs", row.missed_runs.replace("_", " ")),
        Fact("Declared in the code", "yes" if row.shipped else None),
        Fact("Last run", exact(row.last_run_at)),
        Fact("Changed", exact(row.updated_at)),
        Fact("Created", exact(row.created_at)),
        Fact("Id", row.pk, is_code=True),
    ]
