"""Schedules in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from jobs.admin.base import Fact, age, age_column, exact, known, payload_mask, pretty_json
from jobs.admin.schedule_operations import CHANGE, NEW, PAUSE, RESUME, RUN
from jobs.models import Schedule
from jobs.queries.serializers.schedules import next_runs, timetable_in_words
from jobs.registry import find
from jobs.schedules.cron import TimetableInvalid, timetable_of
from jobs.states import Priority, ScheduleTarget
from tenants.admin.base import TenantOperationsAdmin
from tenants.admin.filters import FirmFilter

STATE_LABELS = {"runs": "success", "paused": "default", "fails": "danger"}
UNREADABLE = "its timetable cannot be read"


@admin.register(Schedule)
class ScheduleAdmin(TenantOperationsAdmin):
    """Recurring jobs."""

    operations = (RUN, PAUSE, RESUME, CHANGE)
    list_operations = (NEW,)
    change_form_template = "admin/jobs/schedule/page.html"
    list_select_related = ("firm",)
    list_display = ("title", "state", "firm", "reaches", "runs", "next_run", "last_run")
    list_filter = (FirmFilter,)
    search_fields = ("name__icontains",)
    search_help_text = "Part of the name"
    ordering = ("-id",)
    last_run = age_column("Last run", "last_run_at")

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return the schedule's timetable, next runs and payload."""
        return {
            **super().page_context(request, row),
            "title": row.name,
            "schedule": row,
            "state": _state(row),
            "state_label": STATE_LABELS[_state(row)],
            "timetable": timetable_in_words(row) or UNREADABLE,
            "next_runs": _next_runs(row),
            "payload": pretty_json(row.payload, payload_mask(request, row.firm_id)),
            "facts": known(_facts(row)),
        }

    def subject(self, row: Schedule) -> str:
        """Return the schedule's name and the type of its jobs."""
        return f"{row.name} ({row.job_type})"

    @display(description="Schedule", header=True)
    def title(self, row: Schedule) -> list[str]:
        """Return its name and the type of its jobs."""
        return [row.name, row.job_type]

    @display(description="State", label=STATE_LABELS)
    def state(self, row: Schedule) -> str:
        """Say whether it runs, is paused, or fails."""
        return _state(row)

    @display(description="For")
    def reaches(self, row: Schedule) -> str:
        """Say for which firms each run enqueues jobs."""
        return _reach(row)

    @display(description="Runs")
    def runs(self, row: Schedule) -> SafeString:
        """Return its timetable in words; the cron expression shows on hover."""
        words = timetable_in_words(row) or UNREADABLE
        return format_html('<span title="{}">{}</span>', row.cron or "", words)

    @display(description="Next run")
    def next_run(self, row: Schedule) -> SafeString | str:
        """Return when it runs next."""
        return age(row.next_run_at) if row.enabled else "-"


def _state(row: Schedule) -> str:
    if not row.enabled:
        return "paused"
    return "fails" if row.last_error else "runs"


def _reach(row: Schedule) -> str:
    match ScheduleTarget(row.target):
        case ScheduleTarget.FIRM:
            return "the firm"
        case ScheduleTarget.EVERY_FIRM:
            return "every active firm"
        case ScheduleTarget.EVERY_MEMBER:
            return f"every {row.group_name}"


def _next_runs(row: Schedule) -> list[tuple[str, str]]:
    """Return the next runs in the schedule's time zone, each with the time until then."""
    try:
        zone = timetable_of(row).zone
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
        Fact("Priority", Priority(row.priority).name.lower()),
        Fact("Cron", row.cron, is_code=True),
        Fact("Interval", f"{row.interval_seconds} s" if row.interval_seconds else None),
        Fact("Time zone", row.time_zone),
        Fact("Missed runs", row.missed_runs.replace("_", " ")),
        Fact("Comes with the code", "yes" if row.shipped else None),
        Fact("Last run", exact(row.last_run_at)),
        Fact("Changed", exact(row.updated_at)),
        Fact("Created", exact(row.created_at)),
        Fact("Id", row.pk, is_code=True),
    ]
