"""`ScheduleRun`: what became of one run of a schedule, kept when its jobs are purged."""

from __future__ import annotations

from uuid import UUID

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from interfaces.correlation import MAX_CORRELATION_ID_LENGTH
from jobs.models.base import UNCONSTRAINED, QueueModel, choices
from jobs.models.schedule import Schedule
from jobs.states import RunOutcome


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
