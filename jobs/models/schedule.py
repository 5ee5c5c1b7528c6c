"""`Schedule`: jobs that are enqueued by a timetable; `ScheduleRun`: what became of one run."""

from __future__ import annotations

from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from interfaces.correlation import MAX_CORRELATION_ID_LENGTH
from interfaces.stored_json import StoredJSONField
from jobs.models.base import UNCONSTRAINED, QueueModel, choices
from jobs.registry.timetable import MAX_CRON_LENGTH, Timetable
from jobs.states import PRIORITY_CHOICES, MissedRuns, Priority, RunOutcome, ScheduleTarget


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


class ScheduleRun(QueueModel):
    """One slot of a schedule, or a run out of turn; it belongs to the schedule's firm.

    Its jobs, whichever firms they are for, have its type and correlation id, and ids from the first
    to the last.
    """

    schedule = models.ForeignKey(Schedule, related_name="+", **UNCONSTRAINED)
    slot = models.DateTimeField(
        null=True, help_text="When the run was due; empty if somebody ran it out of turn."
    )
    job_type = models.CharField(max_length=100)
    correlation_id = models.CharField(max_length=MAX_CORRELATION_ID_LENGTH)
    jobs = models.IntegerField(default=0, help_text="How many jobs the run enqueued.")
    first_job_id = models.UUIDField(null=True)
    last_job_id = models.UUIDField(null=True)
    completed = models.IntegerField(
        default=0, db_default=0, help_text="How many of them were completed."
    )
    failed = models.IntegerField(
        default=0, db_default=0, help_text="How many failed or were dead-lettered."
    )
    canceled = models.IntegerField(
        default=0, db_default=0, help_text="How many were canceled or deleted."
    )
    enqueued_at = models.DateTimeField(db_default=Now(), editable=False)
    started_at = models.DateTimeField(null=True, help_text="When the first of its jobs started.")
    finished_at = models.DateTimeField(
        null=True, help_text="When the last of its jobs was settled."
    )
    outcome = models.CharField(  # noqa: DJ001 - unknown is null in every shape
        max_length=10,
        choices=choices(RunOutcome),
        null=True,
        help_text="How the run ended; empty while it goes on.",
    )
    error = models.TextField(default="", blank=True, help_text="Why the run was refused; redacted.")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(outcome__isnull=True) | Q(outcome__in=list(RunOutcome)),
                name="schedule_run_outcome_known",
            ),
        ]
        indexes = [
            models.Index(fields=["firm", "schedule", "id"], name="schedule_run_newest"),
            models.Index(fields=["firm", "id"], name="schedule_run_age"),
            models.Index(
                fields=["id"], condition=Q(finished_at__isnull=True), name="schedule_run_open"
            ),
        ]

    @property
    def job_id(self) -> UUID | None:
        """The id of its job; None if it has none or several."""
        return self.first_job_id if self.jobs == 1 else None

    def __str__(self) -> str:
        return f"a run of {self.job_type}"
