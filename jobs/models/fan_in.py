"""`FanIn` and `FanInMember`: a job that is enqueued once others are settled, and those others."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from interfaces.correlation import MAX_CORRELATION_ID_LENGTH
from jobs.models.base import UNCONSTRAINED, QueueModel, choices
from jobs.models.job import JobQueue
from jobs.states import Category, CountedBy, Priority


class FanIn(QueueModel):
    """A validated job, enqueued when the last member is settled; `parent` requested it.

    In a chain `parent` is the job before it, and the only member.
    """

    parent = models.ForeignKey(
        JobQueue,
        related_name="fan_ins",
        **UNCONSTRAINED,
    )
    name = models.CharField(
        max_length=200, help_text="The step of the parent that made it, or a chain."
    )
    only_completed = models.BooleanField(
        default=False,
        db_default=False,
        help_text="The members must be completed, not only settled.",
    )
    rest = models.JSONField(
        default=list, db_default=[], help_text="The jobs that follow this one in its chain."
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, related_name="+", **UNCONSTRAINED
    )
    category = models.CharField(max_length=20, choices=choices(Category))
    job_type = models.CharField(max_length=100)
    payload_version = models.CharField(max_length=20)
    payload = models.JSONField()
    correlation_id = models.CharField(max_length=MAX_CORRELATION_ID_LENGTH)
    priority = models.SmallIntegerField(default=Priority.NORMAL, db_default=Priority.NORMAL)
    max_attempts = models.SmallIntegerField()
    delay = models.FloatField(default=0.0, db_default=0.0, help_text="Seconds.")
    lock_key = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001 - as a job's
    lock_limit = models.SmallIntegerField()
    lock_counted_by = models.CharField(
        max_length=10, default=CountedBy.FIRM, db_default=CountedBy.FIRM.value
    )
    limit_key = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001 - as a job's
    limit_units = models.IntegerField(default=1, db_default=1)
    idempotency_key = models.CharField(  # noqa: DJ001 - as a job's
        max_length=200, null=True, blank=True
    )
    once_only = models.BooleanField()
    unique_for = models.FloatField(null=True, blank=True, help_text="Seconds.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    fired_at = models.DateTimeField(null=True, blank=True)
    then_job_id = models.UUIDField(
        null=True, blank=True, help_text="The job that it enqueued, or the job that had its key."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["firm", "parent", "name"], name="fan_in_once_per_step"),
            models.CheckConstraint(
                condition=Q(fired_at__isnull=True, then_job_id__isnull=True)
                | Q(fired_at__isnull=False, then_job_id__isnull=False),
                name="fan_in_fired_means_enqueued",
            ),
        ]
        indexes = [
            models.Index(fields=["id"], condition=Q(fired_at__isnull=True), name="fan_in_unfired")
        ]

    def __str__(self) -> str:
        return f"{self.job_type} after {self.parent_id}"


class FanInMember(QueueModel):
    """A job that a fan-in waits for; the row is deleted when the job is settled."""

    fan_in = models.ForeignKey(
        FanIn, on_delete=models.CASCADE, db_constraint=False, related_name="members"
    )
    job = models.ForeignKey(
        JobQueue,
        related_name="+",
        **UNCONSTRAINED,
    )

    class Meta:
        constraints = [
            # In this order for settle, which looks up the fan-ins of a job.
            models.UniqueConstraint(fields=["firm", "job", "fan_in"], name="fan_in_member_once")
        ]

    def __str__(self) -> str:
        return f"{self.job_id} of {self.fan_in_id}"
