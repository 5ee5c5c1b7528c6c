"""`Schedule`: jobs that are enqueued by a timetable."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from interfaces.stored_json import StoredJSONField
from jobs.models.base import QueueModel, choices
from jobs.registry.timetable import MAX_CRON_LENGTH, Timetable
from jobs.states import PRIORITY_CHOICES, MissedRuns, Priority, ScheduleTarget


class Schedule(QueueModel):
    """A timetable and its jobs. Schedules of the system firm may serve every firm."""

    name = models.CharField(max_length=100)
    target = models.CharField(
        max_length=20,
        choices=choices(ScheduleTarget),
        default=ScheduleTarget.FIRM,
        help_text="Whom each run is for: its firm, every active firm, or every member of a group.",
    )
    group_name = models.CharField(
        max_length=50, blank=True, default="", help_text="The group, if the target is every_member."
    )
    cron = models.CharField(  # noqa: DJ001 - one of two is null, which a constraint holds
        max_length=MAX_CRON_LENGTH,
        null=True,
        blank=True,
        help_text="Minute, hour, day, month, weekday; empty if it runs by an interval.",
    )
    interval_seconds = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Counted from one slot to the next."
    )
    time_zone = models.CharField(
        max_length=50, default="UTC", help_text="The time zone of the cron expression."
    )
    job_type = models.CharField(max_length=100)
    payload = StoredJSONField(
        default=dict,
        blank=True,
        help_text="The payload of every run, without the envelope and what a group's member adds.",
    )
    priority = models.SmallIntegerField(
        choices=PRIORITY_CHOICES,
        default=Priority.NORMAL,
    )
    missed_runs = models.CharField(
        max_length=10,
        choices=choices(MissedRuns),
        default=MissedRuns.SKIP,
        help_text="What happens to runs that were due while no worker was running.",
    )
    enabled = models.BooleanField(default=True)
    last_run_at = models.DateTimeField(null=True, blank=True, editable=False)
    next_run_at = models.DateTimeField(
        editable=False,
        help_text="The next slot; while paused, the one at which the schedule was paused.",
    )
    last_error = models.TextField(
        default="", blank=True, editable=False, help_text="Why the last run failed; redacted."
    )
    shipped = models.JSONField(
        null=True,
        blank=True,
        editable=False,
        help_text="The values that the code declared last; any other value was changed by a "
        "person.",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "schedule"
        constraints = [
            models.UniqueConstraint(fields=["firm", "name"], name="schedule_name_once"),
            models.CheckConstraint(
                condition=Q(cron__isnull=True, interval_seconds__gt=0)
                | Q(cron__isnull=False, interval_seconds__isnull=True),
                name="schedule_cron_or_interval",
            ),
            models.CheckConstraint(
                condition=Q(target__in=list(ScheduleTarget)), name="schedule_target_known"
            ),
            models.CheckConstraint(
                condition=Q(missed_runs__in=list(MissedRuns)), name="schedule_missed_runs_known"
            ),
        ]
        indexes = [
            models.Index(fields=["next_run_at"], name="schedule_due", condition=Q(enabled=True))
        ]

    def __str__(self) -> str:
        return self.name

    def timetable(self) -> Timetable:
        """Return the schedule's timetable.

        Raises:
            TimetableInvalid: its cron expression, interval or zone cannot be read.
        """
        return Timetable(self.cron, self.interval_seconds, self.time_zone)

    def clean(self) -> None:
        """Check that target and group fit each other and the firm.

        Raises:
            ValidationError: what is wrong, by field.
        """
        faults = {}
        if bool(self.group_name) != (self.target == ScheduleTarget.EVERY_MEMBER):
            faults["group_name"] = "goes with the target every_member, and with no other"
        if self.target == ScheduleTarget.EVERY_FIRM and not self.firm.is_system:
            faults["target"] = "only the system firm's schedules reach other firms"
        if faults:
            raise ValidationError(faults)
