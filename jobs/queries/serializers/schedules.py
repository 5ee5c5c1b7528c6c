"""Schedules. Select the firm with the rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rest_framework import serializers

from jobs.models import Schedule, ScheduleRun
from jobs.queries.serializers.fields import (
    REDACTED,
    EnumField,
    NullableTextField,
    RedactedField,
    TimestampField,
    help_of,
)
from jobs.registry.timetable import TimetableInvalid
from jobs.states import MissedRuns, Priority, RunOutcome, ScheduleTarget

SHOWN_RUNS = 5


def timetable_in_words(schedule: Schedule) -> str | None:
    """Return the timetable in plain English, None where it is not valid."""
    try:
        return schedule.timetable().in_words()
    except TimetableInvalid:
        return None


def next_runs(schedule: Schedule) -> list[datetime]:
    """Return the times of the next runs; none while the schedule is paused."""
    if not schedule.enabled:
        return []
    try:
        return schedule.timetable().upcoming(schedule.next_run_at, SHOWN_RUNS)
    except TimetableInvalid:
        return []


class _TimetableField(NullableTextField):
    def to_representation(self, schedule: Any) -> Any:
        """Return the timetable of a whole row."""
        return timetable_in_words(schedule)


class _NextRunsField(serializers.ListField):
    child = TimestampField(allow_null=False)

    def to_representation(self, schedule: Any) -> list[Any]:
        """Return the next runs of a whole row."""
        return super().to_representation(next_runs(schedule))


class ScheduleRowSerializer(serializers.Serializer[Any]):
    """A schedule in a list."""

    id = serializers.UUIDField()
    firm = serializers.CharField(source="firm.slug", help_text="The firm's slug.")
    name = serializers.CharField()
    target = EnumField(ScheduleTarget, help_text=help_of(Schedule, "target"))
    group_name = NullableTextField(help_of(Schedule, "group_name"))
    cron = NullableTextField("Minute, hour, day, month, weekday; null if it runs by an interval.")
    interval_seconds = serializers.IntegerField(allow_null=True)
    time_zone = serializers.CharField(help_text=help_of(Schedule, "time_zone"))
    timetable = _TimetableField("The timetable in words; null where it is not valid.", source="*")
    job_type = serializers.CharField()
    priority = serializers.IntegerField(min_value=min(Priority), max_value=max(Priority))
    missed_runs = EnumField(MissedRuns, help_text=help_of(Schedule, "missed_runs"))
    enabled = serializers.BooleanField(help_text="False while it is paused.")
    last_run_at = TimestampField()
    next_run_at = TimestampField("Null while it is paused.")
    last_error = NullableTextField(help_of(Schedule, "last_error"))
    created_at = TimestampField()
    updated_at = TimestampField()

    def to_representation(self, schedule: Schedule) -> dict[str, Any]:
        """Return the schedule; a paused one has no next run."""
        shown: dict[str, Any] = super().to_representation(schedule)
        return shown if schedule.enabled else {**shown, "next_run_at": None}


class ScheduleDetailSerializer(ScheduleRowSerializer):
    """A schedule with its payload and its next runs."""

    payload = RedactedField(REDACTED)
    next_runs = _NextRunsField(source="*", help_text="Empty while it is paused.")


class ScheduleRunSerializer(serializers.Serializer[ScheduleRun]):
    """What became of one run of a schedule."""

    id = serializers.UUIDField()
    schedule_id = serializers.UUIDField()
    firm = serializers.CharField(source="firm.slug", help_text="The slug of the schedule's firm.")
    job_type = serializers.CharField()
    slot = TimestampField(help_of(ScheduleRun, "slot"))
    outcome = EnumField(RunOutcome, allow_null=True, help_text=help_of(ScheduleRun, "outcome"))
    jobs = serializers.IntegerField(help_text=help_of(ScheduleRun, "jobs"))
    completed = serializers.IntegerField(help_text=help_of(ScheduleRun, "completed"))
    failed = serializers.IntegerField(help_text=help_of(ScheduleRun, "failed"))
    canceled = serializers.IntegerField(help_text=help_of(ScheduleRun, "canceled"))
    job_id = serializers.UUIDField(
        allow_null=True,
        help_text="The run's job; null if it has none or several. The job may have been purged.",
    )
    correlation_id = serializers.CharField(help_text="The correlation id of its jobs.")
    enqueued_at = TimestampField(allow_null=False)
    started_at = TimestampField(help_of(ScheduleRun, "started_at"))
    finished_at = TimestampField(help_of(ScheduleRun, "finished_at"))
    error = NullableTextField(help_of(ScheduleRun, "error"))
