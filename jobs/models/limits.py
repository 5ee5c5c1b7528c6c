"""What holds jobs back: pauses, rate limits, circuit breakers, locks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.models.base import QueueModel, choices
from jobs.states import BreakerState, Category, CountedBy

# The prefix of `holder_id` for a job's own lock; the job's id follows.
JOB_HOLDER = "job:"

_EVERYWHERE = "Applies to every firm; the row itself belongs to the system firm."
MAX_KEY_LENGTH = 200


class Pause(QueueModel):
    """While the row exists no matching job starts: of one firm or every firm, all jobs or some."""

    everywhere = models.BooleanField(default=False, help_text=_EVERYWHERE)
    category = models.CharField(
        max_length=20,
        default="",
        blank=True,
        choices=choices(Category),
        help_text="Empty means every category.",
    )
    job_type = models.CharField(
        max_length=100, default="", blank=True, help_text="Empty means every type."
    )
    limit_key = models.CharField(
        max_length=MAX_KEY_LENGTH,
        default="",
        db_default="",
        blank=True,
        help_text="Empty means jobs of every limit key, and those without one.",
    )
    reason = models.TextField()
    paused_by = models.CharField(max_length=200, help_text="Who paused, as in the audit log.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    until = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When the pause ends by itself; empty means that somebody has to end it.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["firm", "everywhere", "category", "job_type", "limit_key"],
                name="pause_once",
            )
        ]

    def __str__(self) -> str:
        return self.limit_key or self.job_type or self.category or "everything"


class RateLimit(QueueModel):
    """At most `amount` units start in `per_seconds`, counted together as `counted_by` says.

    Of the limits with the same `counted_by` and type, a firm's own takes precedence over one for
    every firm, then one for a named key over one for any.
    """

    everywhere = models.BooleanField(default=False, help_text=_EVERYWHERE)
    counted_by = models.CharField(
        max_length=10,
        choices=choices(CountedBy),
        default=CountedBy.FIRM,
        db_default=CountedBy.FIRM.value,
        help_text="What is counted together: a type's jobs in each firm, jobs of each limit key, "
        "or a type's jobs in all firms.",
    )
    job_type = models.CharField(
        max_length=100,
        blank=True,
        help_text="Empty means every type with the limit key, counted together.",
    )
    limit_key = models.CharField(
        max_length=MAX_KEY_LENGTH,
        default="",
        db_default="",
        blank=True,
        help_text="If counted by key: the limited key; empty means each key.",
    )
    amount = models.PositiveIntegerField(
        help_text="How many units may start in so many seconds; a job counts as one unit unless its "
        "type declares more."
    )
    per_seconds = models.FloatField(help_text="The seconds in which so many units may start.")
    burst = models.PositiveIntegerField(
        help_text="How many units may start at once after a quiet time."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["firm", "everywhere", "counted_by", "job_type", "limit_key"],
                name="rate_limit_once",
            ),
            models.CheckConstraint(
                condition=Q(counted_by__in=list(CountedBy)), name="rate_limit_counted_by_known"
            ),
            models.CheckConstraint(
                condition=Q(amount__gt=0, per_seconds__gt=0, burst__gt=0),
                name="rate_limit_above_zero",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subject}: {self.amount} in {self.per_seconds:g} s"

    @property
    def subject(self) -> str:
        """What is limited: "sync", "sync of all firms", "each limit key", "sync of mailbox:1"."""
        match self.counted_by:
            case CountedBy.KEY:
                key = self.limit_key or "each limit key"
                return f"{self.job_type} of {key}" if self.job_type else key
            case CountedBy.ALL_FIRMS:
                return f"{self.job_type} of all firms"
        return self.job_type


class RateBucket(QueueModel):
    """The token bucket of a firm and type, of a limit key, or of a type in all firms.

    That of all firms belongs to the system firm.
    """

    counted_by = models.CharField(
        max_length=10,
        choices=choices(CountedBy),
        default=CountedBy.FIRM,
        db_default=CountedBy.FIRM.value,
    )
    job_type = models.CharField(max_length=100, blank=True, help_text="Empty means any.")
    limit_key = models.CharField(
        max_length=MAX_KEY_LENGTH,
        default="",
        db_default="",
        blank=True,
        help_text="Empty means any.",
    )
    tokens = models.FloatField()
    granted = models.IntegerField(
        help_text="Units admitted but not seen to have started when it was last refilled."
    )
    refilled_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["counted_by", "job_type", "limit_key", "firm"], name="rate_bucket_once"
            )
        ]

    def __str__(self) -> str:
        return " ".join(filter(None, [self.job_type, self.limit_key]))


class CircuitBreaker(QueueModel):
    """Holds back a firm's jobs of one type and limit key while it is not closed.

    If there is no row, there was no recent failure.
    """

    job_type = models.CharField(max_length=100)
    limit_key = models.CharField(
        max_length=MAX_KEY_LENGTH,
        default="",
        db_default="",
        blank=True,
        help_text="Empty for jobs without a limit key.",
    )
    state = models.CharField(
        max_length=10,
        choices=[(word.value, word.value.replace("_", " ")) for word in BreakerState],
        default=BreakerState.CLOSED,
    )
    attempts = models.IntegerField(
        default=0, help_text="Attempts in the current window, while the breaker is closed."
    )
    failures: models.JSONField[Any, Any] = models.JSONField(
        default=dict, help_text="Failures in this window, by fingerprint."
    )
    window_ends_at = models.DateTimeField(
        help_text="When the window ends and counting starts again."
    )
    trips = models.IntegerField(
        default=0,
        help_text="How many times in a row it has opened; the cooldown doubles each time.",
    )
    fingerprint = models.CharField(
        max_length=32, default="", blank=True, help_text="The failure that opened the breaker."
    )
    opened_at = models.DateTimeField(null=True, blank=True)
    probe_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When one job may run as a probe; if one is running, when another may take its "
        "place.",
    )
    probe_job_id = models.UUIDField(
        null=True, blank=True, help_text="The job that is tried as a probe."
    )

    class Meta:
        verbose_name = "circuit breaker"
        constraints = [
            models.UniqueConstraint(fields=["firm", "job_type", "limit_key"], name="breaker_once"),
            models.CheckConstraint(
                condition=Q(state__in=list(BreakerState)), name="breaker_state_known"
            ),
        ]
        indexes = [
            # Every claim checks whether one is open.
            models.Index(
                fields=["firm", "job_type", "limit_key"],
                condition=Q(state__in=["open", "half_open"]),
                name="breaker_not_closed",
            )
        ]

    def __str__(self) -> str:
        return f"{self.job_type} ({self.limit_key})" if self.limit_key else self.job_type


class ConcurrencyLock(QueueModel):
    """A held lock. A job's lock never expires: it is released when its attempt ends.

    Locks of the system firm count over all firms.
    """

    lock_key = models.CharField(max_length=200)
    slot = models.SmallIntegerField(default=0, help_text="From 0 to the key's limit minus one.")
    holder_id = models.CharField(max_length=200, help_text="job:ID for a job's own lock.")
    acquired_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True)
    fencing_token = models.BigIntegerField()

    class Meta:
        verbose_name = "lock"
        verbose_name_plural = "locks"
        constraints = [
            models.UniqueConstraint(fields=["firm", "lock_key", "slot"], name="lock_slot_once")
        ]
        indexes = [models.Index(fields=["holder_id"], name="lock_holder")]

    def __str__(self) -> str:
        return self.lock_key

    @property
    def counted_by(self) -> CountedBy:
        """Whose jobs wait for it: the firm's, or those of all firms."""
        return CountedBy.ALL_FIRMS if self.firm.is_system else CountedBy.FIRM


def held_at(moment: datetime) -> Q:
    """Return the condition that a lock is held at that time, because users' locks expire."""
    return Q(expires_at__isnull=True) | Q(expires_at__gte=moment)
