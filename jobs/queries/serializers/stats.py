"""The figures of the queue, and workers."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from jobs.models import Worker
from jobs.queries.serializers.fields import EnumField, TimestampField, help_of
from jobs.queries.stats import WINDOW_MINUTES
from jobs.states import Category, WorkerRequest


class StatusCountsSerializer(serializers.Serializer[Any]):
    """Jobs by status: live ones and dead letters as of now, the rest from counters."""

    pending = serializers.IntegerField(source="statuses.pending")
    claimed = serializers.IntegerField(source="statuses.claimed")
    processing = serializers.IntegerField(source="statuses.processing")
    completed = serializers.IntegerField(source="statuses.completed")
    failed = serializers.IntegerField(source="statuses.failed")
    dlq = serializers.IntegerField(source="statuses.dlq")
    canceled = serializers.IntegerField(source="statuses.canceled")


class HeldBackSerializer(serializers.Serializer[Any]):
    """Due jobs by what holds them back; each is counted once."""

    paused = serializers.IntegerField(help_text="Held back by a pause.")
    firm_inactive = serializers.IntegerField(help_text="Held back because their firm is inactive.")
    breaker = serializers.IntegerField(
        help_text="Held back by a circuit breaker that is not closed."
    )
    capped = serializers.IntegerField(help_text="Held back by their firm's cap.")
    rate_limited = serializers.IntegerField(help_text="Held back by a rate limit.")
    locked = serializers.IntegerField(help_text="Waiting for a lock.")


class CategoryStatsSerializer(StatusCountsSerializer):
    """One category's figures."""

    category = EnumField(Category, source="group")
    runnable = serializers.IntegerField(help_text="Due, and nothing holds them back.")
    scheduled = serializers.IntegerField(help_text="Not due yet.")
    waiting_lock = serializers.IntegerField(
        source="held_back.locked", help_text="Due, and waiting for a lock."
    )
    held_back = HeldBackSerializer()
    oldest_wait_seconds = serializers.FloatField(
        allow_null=True,
        help_text="How long the oldest due job has waited, leaving out jobs that a pause, a cap, "
        "a rate limit or an inactive firm holds back.",
    )
    completed_per_minute = serializers.FloatField(help_text="Over the window.")
    failure_rate = serializers.FloatField(
        allow_null=True,
        help_text="Failed jobs among the settled ones, 0 to 1; null if none was settled.",
    )


class QueueStatsSerializer(serializers.Serializer[Any]):
    """The figures of the queue in the caller's firms."""

    generated_at = TimestampField(allow_null=False)
    window_minutes = serializers.IntegerField(
        help_text=f"The minutes that the rates cover: always {WINDOW_MINUTES}."
    )
    totals = StatusCountsSerializer()
    held_back = HeldBackSerializer(source="totals.held_back")
    categories = CategoryStatsSerializer(many=True)
    workers = serializers.IntegerField(help_text="Live workers; workers serve every firm.")
    dead_letters_open = serializers.IntegerField(source="totals.statuses.dlq")


class _RunningField(serializers.ListField):
    child = serializers.UUIDField()

    def to_representation(self, worker_id: Any) -> list[Any]:
        """Return the worker's jobs of `context["running"]`, the answer of `running_jobs`."""
        return super().to_representation(self.context["running"][worker_id])


class WorkerSerializer(serializers.Serializer[Any]):
    """A worker process. Workers serve every firm."""

    id = serializers.UUIDField()
    host = serializers.CharField()
    pid = serializers.IntegerField()
    version = serializers.CharField()
    categories = serializers.ListField(child=serializers.CharField(), help_text="Empty means all.")
    job_types = serializers.ListField(
        child=serializers.CharField(), help_text=help_of(Worker, "job_types")
    )
    concurrency = serializers.IntegerField(help_text="Handlers it runs at a time.")
    running = _RunningField(
        source="pk", help_text="The jobs of the caller's firms that it is running now."
    )
    rss_bytes = serializers.IntegerField(help_text="Resident memory.")
    started_at = TimestampField()
    heartbeat_at = TimestampField()
    lease_expires_at = TimestampField(
        "Its lease ends at this time unless a heartbeat extends it; then its jobs are rescued."
    )
    requested = EnumField(
        WorkerRequest,
        allow_null=True,
        help_text=help_of(Worker, "requested"),
    )
    runs_newest_version = serializers.SerializerMethodField(
        help_text="Whether no worker has run a newer version."
    )
    dead_at = TimestampField("When its lease was found to have ended; null while it lives.")

    def get_runs_newest_version(self, worker: Worker) -> bool:
        """Say whether the worker runs the version that came last."""
        newest = self.context.get("newest_version")
        return newest is None or worker.version == newest
