"""Schedules as the command line, REST and the admin show them; the shapes' rules are `jobs.queries.serializers`'."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypedDict

from jobs.engine.masks import Mask
from jobs.models import Schedule
from jobs.queries.serializers import iso
from jobs.schedules.cron import TimetableInvalid, timetable_of

SHOWN_RUNS = 5


class ScheduleRow(TypedDict):
    """A schedule in a list."""

    id: str
    firm: str
    name: str
    target: str
    group_name: str | None
    cron: str | None
    interval_seconds: int | None
    time_zone: str
    timetable: str | None
    job_type: str
    priority: int
    missed_runs: str
    enabled: bool
    last_run_at: str | None
    next_run_at: str | None
    last_error: str | None
    created_at: str | None
    updated_at: str | None


class ScheduleDetail(ScheduleRow):
    """A schedule with its payload and its next runs."""

    payload: Any
    next_runs: list[str]


def schedule_row(schedule: Schedule) -> ScheduleRow:
    """Return a schedule; select its firm along with it."""
    return ScheduleRow(
        id=str(schedule.pk),
        firm=schedule.firm.slug,
        name=schedule.name,
        target=schedule.target,
        group_name=schedule.group_name or None,
        cron=schedule.cron,
        interval_seconds=schedule.interval_seconds,
        time_zone=schedule.time_zone,
        timetable=timetable_in_words(schedule),
        job_type=schedule.job_type,
        priority=schedule.priority,
        missed_runs=schedule.missed_runs,
        enabled=schedule.enabled,
        last_run_at=iso(schedule.last_run_at),
        next_run_at=iso(schedule.next_run_at) if schedule.enabled else None,
        last_error=schedule.last_error or None,
        created_at=iso(schedule.created_at),
        updated_at=iso(schedule.updated_at),
    )


def schedule_detail(schedule: Schedule, mask: Mask) -> ScheduleDetail:
    """Return a schedule with everything that belongs to it; `mask` goes over the payload."""
    runs = [text for moment in next_runs(schedule) if (text := iso(moment)) is not None]
    return ScheduleDetail(**schedule_row(schedule), payload=mask(schedule.payload), next_runs=runs)


def timetable_in_words(schedule: Schedule) -> str | None:
    """Return when it runs in plain English, None where that cannot be read."""
    try:
        return timetable_of(schedule).in_words()
    except TimetableInvalid:
        return None


def next_runs(schedule: Schedule, count: int = SHOWN_RUNS) -> list[datetime]:
    """Return the next slots; none while it is paused."""
    if not schedule.enabled:
        return []
    try:
        return timetable_of(schedule).upcoming(schedule.next_run_at, count)
    except TimetableInvalid:
        return []
