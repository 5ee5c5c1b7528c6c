"""Runs of schedules in the admin: when each was due, what became of its jobs."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse

from interfaces.admin.base import column
from interfaces.admin.filters import field_filter
from jobs.admin.base import LABELS, age_column, error_line, exact, job_url, link
from jobs.models import Schedule, ScheduleRun
from jobs.models.base import choices
from jobs.queries.filters import id_range
from jobs.queries.lists import runs_of
from jobs.states import RunOutcome
from tenants.admin.base import FirmFilter, TenantAdmin

SHOWN_RUNS = 10
OUT_OF_TURN = "out of turn"


def outcome_of(run: ScheduleRun) -> str:
    """Return how the run ended; else "running", or "pending" while none of its jobs has started."""
    return run.outcome or ("pending" if run.started_at is None else "running")


def jobs_in_words(run: ScheduleRun) -> str:
    """Return what became of the run's jobs, such as `200 jobs, 3 failed`."""
    parts = [f"{run.jobs} job{'' if run.jobs == 1 else 's'}"]
    counted = {"failed": run.failed, "canceled": run.canceled}
    if run.outcome is None and run.completed:
        counted = {"completed": run.completed, **counted}
    parts += [f"{count} {word}" for word, count in counted.items() if count]
    return ", ".join(parts)


def latest_runs(schedule: Schedule) -> list[dict[str, Any]]:
    """Return what the schedule's page shows of its latest runs."""
    return [
        {
            "run": run,
            "slot": exact(run.slot) or OUT_OF_TURN,
            "outcome": outcome_of(run),
            "label": LABELS[outcome_of(run)],
            "jobs": jobs_in_words(run),
        }
        for run in runs_of(schedule).order_by("-pk")[:SHOWN_RUNS]
    ]


def _search(rows: QuerySet[ScheduleRun], term: str) -> QuerySet[ScheduleRun]:
    span = id_range(term)
    if span is None:
        return rows.filter(job_type=term)
    return rows.filter(schedule_id__gte=span[0], schedule_id__lte=span[1])


def _schedule(run: ScheduleRun) -> str:
    return reverse("admin:jobs_schedule_change", args=[run.schedule_id])


def _jobs_found(run: ScheduleRun) -> str:
    if run.job_id is not None:
        return job_url(run.job_id)
    jobs = reverse("admin:jobs_jobqueue_changelist")
    return f"{jobs}?q=correlation:{run.correlation_id}"


@admin.register(ScheduleRun)
class ScheduleRunAdmin(TenantAdmin):
    """What became of every run of a schedule."""

    list_display = ("due", "name", "ended", "firm", "led_to", "started", "finished", "why")
    list_filter = (
        field_filter("outcome", choices(RunOutcome)),
        FirmFilter,
    )
    list_select_related = ("firm", "schedule")
    search_fields = ("schedule_id",)
    search = staticmethod(_search)
    search_help_text = "Id of a schedule (or its beginning), or type"
    ordering = ("-id",)
    fields = (
        *("due", "shown_schedule", "firm", "job_type", "outcome", "led_to", "shown_jobs"),
        *("enqueued_at", "started_at", "finished_at", "error"),
    )
    due = column("Slot", lambda run: exact(run.slot) or OUT_OF_TURN)
    name = column("Schedule", lambda run: run.schedule.name)
    ended = column("Outcome", lambda run: (outcome_of(run), outcome_of(run)), label=LABELS)
    led_to = column("Led to", jobs_in_words)
    started = age_column("Started", "started_at")
    finished = age_column("Finished", "finished_at")
    why = column("Error", lambda run: error_line(run.error))
    shown_schedule = column("Schedule", lambda run: link(_schedule(run), run.schedule.name))
    shown_jobs = column("Jobs", lambda run: link(_jobs_found(run), "those not yet purged"))
    empty_text = "No recent runs."

    def get_queryset(self, request: HttpRequest) -> QuerySet[ScheduleRun]:
        """Fetch firm and schedule with the rows."""
        rows: QuerySet[ScheduleRun] = super().get_queryset(request)
        return rows.select_related("firm", "schedule")
