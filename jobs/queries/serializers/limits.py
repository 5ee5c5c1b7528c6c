"""Pauses, rate limits, circuit breakers and locks. Select the firm with the rows."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from jobs.models import CircuitBreaker, ConcurrencyLock, Pause, RateLimit
from jobs.queries.serializers.fields import EnumField, NullableTextField, TimestampField, help_of
from jobs.states import BreakerState, Category, CountedBy


class _FirmOrEveryField(NullableTextField):
    """The slug of a row's firm. A row for every firm belongs to the system firm."""

    def to_representation(self, row: Any) -> Any:
        """Return the slug, None for every firm."""
        return None if row.everywhere else row.firm.slug


class FirmOrEverySerializer(serializers.Serializer[Any]):
    """A row of one firm or of every firm."""

    id = serializers.UUIDField()
    firm = _FirmOrEveryField("The firm's slug; null if it applies to every firm.", source="*")
    everywhere = serializers.BooleanField(help_text="Whether it applies to every firm.")


class PauseSerializer(FirmOrEverySerializer):
    """A pause: matching jobs do not start until somebody resumes them, or until its end."""

    category = EnumField(Category, allow_null=True, help_text=help_of(Pause, "category"))
    job_type = NullableTextField(help_of(Pause, "job_type"))
    limit_key = NullableTextField(help_of(Pause, "limit_key"))
    reason = serializers.CharField()
    paused_by = serializers.CharField(help_text=help_of(Pause, "paused_by"))
    created_at = TimestampField()
    until = TimestampField(help_of(Pause, "until"))


class RateLimitSerializer(FirmOrEverySerializer):
    """How often jobs that are counted together may start."""

    counted_by = EnumField(
        CountedBy,
        help_text=help_of(RateLimit, "counted_by"),
    )
    job_type = NullableTextField(help_of(RateLimit, "job_type"))
    limit_key = NullableTextField(help_of(RateLimit, "limit_key"))
    amount = serializers.IntegerField(help_text=help_of(RateLimit, "amount"))
    per_seconds = serializers.FloatField(help_text=help_of(RateLimit, "per_seconds"))
    burst = serializers.IntegerField(help_text=help_of(RateLimit, "burst"))
    created_at = TimestampField()


class _MostFrequentField(serializers.IntegerField):
    """The largest count of a mapping of failures to counts."""

    def to_representation(self, failures: Any) -> int:
        """Return the count, 0 where there is no failure."""
        return max(failures.values(), default=0)


class BreakerSerializer(serializers.Serializer[Any]):
    """The circuit breaker of a job type, and of one limit key, in a firm."""

    id = serializers.UUIDField()
    firm = serializers.CharField(source="firm.slug", help_text="The firm's slug.")
    job_type = serializers.CharField()
    limit_key = NullableTextField(help_of(CircuitBreaker, "limit_key"))
    state = EnumField(
        BreakerState,
        help_text="closed: all jobs run. half_open: one runs as a probe. open: none runs.",
    )
    attempts = serializers.IntegerField(help_text=help_of(CircuitBreaker, "attempts"))
    failed = _MostFrequentField(
        source="failures", help_text="Attempts in the window with the most frequent failure."
    )
    trips = serializers.IntegerField(help_text=help_of(CircuitBreaker, "trips"))
    fingerprint = NullableTextField(help_of(CircuitBreaker, "fingerprint"))
    opened_at = TimestampField("Null while it is closed.")
    next_try_at = TimestampField(
        "When one job is tried as a probe; null unless the breaker is open.", source="probe_at"
    )
    probe_job_id = serializers.UUIDField(
        allow_null=True, help_text="The job that is tried as a probe."
    )

    def to_representation(self, breaker: CircuitBreaker) -> dict[str, Any]:
        """Return the breaker without the times and the job of a state that it has left."""
        shown: dict[str, Any] = super().to_representation(breaker)
        if breaker.state == BreakerState.CLOSED:
            shown |= {"opened_at": None, "probe_job_id": None}
        if breaker.state != BreakerState.OPEN:
            shown["next_try_at"] = None
        return shown


class LockSerializer(serializers.Serializer[Any]):
    """A held lock."""

    id = serializers.UUIDField()
    firm = serializers.CharField(source="firm.slug", help_text="The firm's slug.")
    lock_key = serializers.CharField()
    counted_by = serializers.ChoiceField(
        [CountedBy.FIRM.value, CountedBy.ALL_FIRMS.value],
        help_text="Whose jobs wait for the lock: the firm's, or those of all firms. Locks of all "
        "firms belong to the system firm.",
    )
    slot = serializers.IntegerField(help_text=help_of(ConcurrencyLock, "slot"))
    holder_id = serializers.CharField(help_text=help_of(ConcurrencyLock, "holder_id"))
    acquired_at = TimestampField()
    expires_at = TimestampField("Null for a job's own lock, which ends with the job's hold on it.")
    fencing_token = serializers.IntegerField(help_text="Higher with each acquisition.")
