"""`Pause` stops jobs from starting, `RateLimit` limits their rate, `RateBucket` counts tokens."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.models.base import QueueModel
from jobs.states import Category

_EVERYWHERE = "Holds for every firm; the row itself belongs to the system firm."


class Pause(QueueModel):
    """While the row exists no matching job starts: of one firm or every firm, all jobs or some."""

    everywhere = models.BooleanField(default=False, help_text=_EVERYWHERE)
    category = models.CharField(
        max_length=20,
        default="",
        blank=True,
        choices=[(word.value, word.value) for word in Category],
        help_text="Empty means every category.",
    )
    job_type = models.CharField(
        max_length=100, default="", blank=True, help_text="Empty means every type."
    )
    reason = models.TextField()
    paused_by = models.CharField(max_length=200, help_text="Who did it, as the audit log says.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    until = models.DateTimeField(
        null=True, blank=True, help_text="When it ends by itself; empty means by hand."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["firm", "everywhere", "category", "job_type"], name="pause_once"
            )
        ]

    def __str__(self) -> str:
        return self.job_type or self.category or "everything"


class RateLimit(QueueModel):
    """At most `amount` starts of a type in `per_seconds`, counted for each firm separately.

    A firm's own row takes precedence over the one for every firm.
    """

    everywhere = models.BooleanField(default=False, help_text=_EVERYWHERE)
    job_type = models.CharField(max_length=100)
    amount = models.PositiveIntegerField()
    per_seconds = models.FloatField()
    burst = models.PositiveIntegerField(help_text="Most that may start at once after a quiet time.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["firm", "everywhere", "job_type"], name="rate_limit_once"
            ),
            models.CheckConstraint(
                condition=Q(amount__gt=0, per_seconds__gt=0, burst__gt=0),
                name="rate_limit_above_zero",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_type}: {self.amount} in {self.per_seconds:g} s"


class RateBucket(QueueModel):
    """The token bucket of one firm and type."""

    job_type = models.CharField(max_length=100)
    tokens = models.FloatField()
    granted = models.IntegerField(
        help_text="Jobs let through and not seen to have started, at the last look."
    )
    refilled_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["firm", "job_type"], name="rate_bucket_once")
        ]

    def __str__(self) -> str:
        return self.job_type
