"""Pauses, rate limits, circuit breakers and locks. Select the firm with the rows."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from jobs.models import CircuitBreaker
from jobs.queries.serializers.fields import EnumField, NullableTextField, TimestampField
from jobs.states import BreakerState, Category, CountedBy


class _FirmOrEveryField(NullableTextField):
    """The slug of a row's firm. A row for every firm belongs to the system firm."""

    def to_representation(self, row: Any) -> Any:
        """Return the slug, None for every firm."""
        return None if row.everywhere else row.firm.slug


class FirmOrEverySerializer(serializers.Serializer[Any]):
    """A row of one firm or of every firm."""

    id = serializers.UUIDField()
    firm = _FirmOrEveryField("The firm's slug; null where it holds everywhere.", source="*")
    everywhere = serializers.BooleanField(help_text="Whether it holds for every firm.")


class PauseSerializer(FirmOrEverySerializer):
    """A pause: matching jobs do not start until somebody resumes them, or until its end."""

    category = EnumField(Category, allow_null=True, help_text="Null means every category.")
    job_type = NullableTextField("Null means every type.")
    limit_key = NullableTextField("Null means every job, whatever its limit key.")
    reason = serializers.CharField()
    paused_by = serializers.CharField(help_text="Who did it.")
    created_at = TimestampField()
    until = TimestampField("When it ends by itself; null means by hand.")


class RateLimitSerializer(FirmOrEverySerializer):
    """How often jobs may start that are counted together."""

    counted_by = EnumField(
        CountedBy, help_text="What is counted together: in each firm, by limit key, over all firms."
    )
    job_type = NullableTextField("Null means every type with the limit key.")
    limit_key = NullableTextField("Where keys are counted: the one it is for; null means each.")
    amount = serializers.IntegerField(help_text="Most units that start in `per_seconds` seconds.")
    per_seconds = serializers.FloatField(help_text="The seconds in which `amount` may start.")
    burst = serializers.IntegerField(help_text="Most that may start at once after a quiet time.")
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
    limit_key = NullableTextField("Null for the jobs without one.")
    state = EnumField(
        BreakerState, help_text="Closed: all are tried. Half open: one is. Open: none."
    )
    attempts = serializers.IntegerField(help_text="In this window, while it is closed.")
    failed = _MostFrequentField(
        source="failures", help_text="Of those, with the most frequent failure."
    )
    trips = serializers.IntegerField(help_text="How often it opened in a row.")
    fingerprint = NullableTextField("The failure that opened it.")
    opened_at = TimestampField("Null while it is closed.")
    next_try_at = TimestampField(
        "When one job is tried; null unless it is open.", source="probe_at"
    )
    probe_job_id = serializers.UUIDField(allow_null=True, help_text="The job that is tried.")

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
        help_text="Whose jobs wait for it: the firm's, or those of all firms. The latter are the "
        "system firm's.",
    )
    slot = serializers.IntegerField(help_text="From 0 to the key's limit minus one.")
    holder_id = serializers.CharField(help_text="job:ID for a job's own lock.")
    acquired_at = TimestampField()
    expires_at = TimestampField(
        "Null for a job's own lock, which lives as long as the job holds it."
    )
    fencing_token = serializers.IntegerField(help_text="Higher with each acquisition.")
