"""What jobs leave behind: failed attempts, finished steps, used keys, counters per minute."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from interfaces.stored_json import StoredJSONField
from jobs.models.base import QueueModel, choices
from jobs.models.job import JobQueue
from jobs.states import AttemptEnd, Category

COUNTED = ("completed", "failed", "dlq", "canceled", "retried")
# What operators did to settled jobs; COUNTED counts how attempts ended.
OPERATED = ("discarded", "failed_restarted", "canceled_restarted")
COUNTERS = (*COUNTED, *OPERATED, "wait_ms", "run_ms")


class Attempt(QueueModel):
    """A failed, snoozed, released or rescued attempt. A completed one is recorded in the job itself."""

    job = models.ForeignKey(
        JobQueue, on_delete=models.CASCADE, db_constraint=False, related_name="attempts_log"
    )
    series = models.SmallIntegerField()
    number = models.SmallIntegerField(
        help_text="The number of the attempt, from 1, within its series."
    )
    worker_id = models.UUIDField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(db_default=Now())
    end = models.CharField(max_length=15, choices=choices(AttemptEnd))
    error_class = models.CharField(max_length=200, default="", blank=True)
    message = models.TextField(
        default="", blank=True, help_text="Redacted, at most 2,000 characters."
    )
    traceback = models.TextField(default="", blank=True)

    class Meta:
        ordering = ["ended_at", "id"]

    def __str__(self) -> str:
        return f"attempt {self.number}: {self.end}"


class AttemptLog(QueueModel):
    """What the handler noted with `ctx.log` in one attempt."""

    job = models.ForeignKey(
        JobQueue, on_delete=models.CASCADE, db_constraint=False, related_name="logs"
    )
    series = models.SmallIntegerField()
    number = models.SmallIntegerField(
        help_text="The number of the attempt, from 1, within its series."
    )
    lines = StoredJSONField(help_text="Time and text of each note, redacted, in order.")

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"log of attempt {self.number}"


class JobStep(QueueModel):
    """A finished step of a job; on retry its result is returned instead of running it again."""

    job = models.ForeignKey(
        JobQueue, on_delete=models.CASCADE, db_constraint=False, related_name="steps"
    )
    name = models.CharField(max_length=200)
    result = StoredJSONField(null=True)
    started_at = models.DateTimeField(
        null=True, help_text="Unknown if an earlier version stored it."
    )
    finished_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["finished_at", "id"]
        constraints = [
            models.UniqueConstraint(fields=["firm", "job", "name"], name="step_once_per_job")
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def seconds(self) -> float | None:
        """How long it took, if that is known."""
        if self.started_at is None:
            return None
        return float((self.finished_at - self.started_at).total_seconds())


class IdempotencyKey(QueueModel):
    """A key that stays taken after its job is settled: for ever, or until it expires."""

    key = models.CharField(max_length=200)
    job_id = models.UUIDField()
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Unknown means never.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["firm", "key"], name="idempotency_key_once")]
        indexes = [
            models.Index(
                fields=["firm", "expires_at"],
                condition=Q(expires_at__isnull=False),
                name="idempotency_key_expiry",
            )
        ]

    def __str__(self) -> str:
        return self.key


class _Counts(models.Model):
    """Settled jobs of one category in one minute."""

    minute = models.DateTimeField()
    category = models.CharField(max_length=20, choices=choices(Category))
    completed = models.IntegerField(default=0, db_default=0)
    failed = models.IntegerField(default=0, db_default=0)
    dlq = models.IntegerField(default=0, db_default=0)
    canceled = models.IntegerField(default=0, db_default=0)
    retried = models.IntegerField(default=0, db_default=0)
    discarded = models.IntegerField(
        default=0, db_default=0, help_text="Moved from dlq to failed by an operator."
    )
    failed_restarted = models.IntegerField(
        default=0, db_default=0, help_text="Moved from failed to pending by an operator."
    )
    canceled_restarted = models.IntegerField(
        default=0, db_default=0, help_text="Moved from canceled to pending by an operator."
    )
    wait_ms = models.BigIntegerField(
        default=0, db_default=0, help_text="Sum over the settled jobs."
    )
    run_ms = models.BigIntegerField(default=0, db_default=0, help_text="Sum over the settled jobs.")

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.category} {self.minute}"


class _Counters(QueueModel, _Counts):
    """The counters of one firm."""

    class Meta:
        abstract = True


class JobMinute(_Counters):
    """The counters folded so far; `JobMinuteDelta` has the rest."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["firm", "category", "minute"], name="job_minute_once")
        ]
        indexes = [models.Index(fields=["minute"], name="job_minute_newest")]


class JobHour(_Counters):
    """The same counters by hour, for charts over days: `minute` is the first of the hour."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["firm", "category", "minute"], name="job_hour_once")
        ]
        indexes = [models.Index(fields=["minute"], name="job_hour_newest")]


class JobMinuteDelta(_Counters):
    """What one transaction counted, until maintenance folds it into the minute.

    It has no index but its key, because nearly every completion inserts a row.
    """


class PlatformMinute(_Counts):
    """The sum of all firms' `JobMinute`, for users who see every firm; kept by triggers of that."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["minute", "category"], name="platform_minute_once")
        ]


class PlatformHour(_Counts):
    """The sum of all firms' `JobHour`, kept like the minutes."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["minute", "category"], name="platform_hour_once")
        ]
