"""What workers measured, kept for the dashboard: times by bucket, failing types, versions."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from jobs.models.base import QueueModel, choices
from jobs.states import Category, Measure

# Upper bounds of the buckets, in seconds; one more bucket has what took longer.
BUCKET_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 900, 3600)
# How long a row's span is, in minutes: short ones for the last hours, long ones for days.
SHORT_SPAN, LONG_SPAN = 10, 60


class _Attempts(models.Model):
    """How many attempts of a category, in one span of time, took a time within one bucket."""

    category = models.CharField(max_length=20, choices=choices(Category))
    measure = models.CharField(max_length=5, choices=choices(Measure))
    span_minutes = models.SmallIntegerField()
    span_start = models.DateTimeField()
    bucket = models.SmallIntegerField(
        help_text="The bucket's place in BUCKET_SECONDS; the last has no upper bound."
    )
    attempts = models.BigIntegerField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.category} {self.measure} {self.span_start}"


class LatencyBucket(QueueModel, _Attempts):
    """The attempts of one firm."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["firm", "category", "measure", "span_minutes", "span_start", "bucket"],
                name="latency_bucket_once",
            )
        ]
        indexes = [models.Index(fields=["span_minutes", "span_start"], name="latency_newest")]


class PlatformLatency(_Attempts):
    """The sum of all firms' `LatencyBucket`, for users who see every firm; kept by its triggers."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["span_minutes", "span_start", "category", "measure", "bucket"],
                name="platform_latency_once",
            )
        ]


class FailingType(QueueModel):
    """Since when a firm's job type fails, without a quarter of an hour between two failures."""

    job_type = models.CharField(max_length=100)
    failing_since = models.DateTimeField()
    last_failed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["firm", "job_type"], name="failing_type_once")
        ]
        indexes = [models.Index(fields=["last_failed_at"], name="failing_type_newest")]

    def __str__(self) -> str:
        return self.job_type


class WorkerVersion(models.Model):
    """A version of the service, and when a worker first ran it. It belongs to no firm."""

    version = models.CharField(primary_key=True, max_length=50)
    first_seen_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.version
