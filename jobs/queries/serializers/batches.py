"""Batches, as `batch_rows` returns them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from jobs.models import Batch
from jobs.queries.batches import failed_jobs_of, progress_of
from jobs.queries.serializers.fields import EnumField, NullableTextField, TimestampField, help_of
from jobs.states import BatchState


class BatchSerializer(serializers.Serializer[Any]):
    """How far a batch is, and what followed it."""

    id = serializers.UUIDField()
    firm = serializers.CharField(help_text="The firm's slug.")
    name = NullableTextField()
    state = EnumField(BatchState, help_text="Running while at least one of its jobs is pending.")
    total = serializers.IntegerField(help_text="How many jobs the batch has.")
    pending = serializers.IntegerField(help_text="How many jobs are not over.")
    completed = serializers.IntegerField()
    failed = serializers.IntegerField(help_text="How many jobs failed or were dead-lettered.")
    canceled = serializers.IntegerField(help_text="How many jobs were canceled or deleted.")
    correlation_id = serializers.CharField(help_text="The correlation id of its jobs.")
    created_at = TimestampField(allow_null=False)
    failed_at = TimestampField(help_of(Batch, "failed_at"))
    settled_at = TimestampField("When all of its jobs were settled for the first time.")
    completed_at = TimestampField("When all of its jobs were completed.")
    failed_job_id = serializers.UUIDField(
        allow_null=True, help_text=help_of(Batch, "failed_job_id")
    )
    settled_job_id = serializers.UUIDField(
        allow_null=True, help_text="The job enqueued when all were settled."
    )
    completed_job_id = serializers.UUIDField(
        allow_null=True, help_text="The job enqueued when all were completed."
    )

    def to_representation(self, row: Any) -> dict[str, Any]:
        """Return the batch with its progress."""
        progress = progress_of(row)
        counts = ("state", "total", "pending", "completed", "failed", "canceled")
        found: dict[str, Any] = {str(name): getattr(row, str(name), None) for name in self.fields}
        found |= {name: getattr(progress, name) for name in counts}
        shown: dict[str, Any] = super().to_representation({**found, "firm": row.firm.slug})
        return shown


class BatchDetailSerializer(BatchSerializer):
    """A batch with the jobs that failed."""

    failed_jobs = serializers.ListField(
        child=serializers.UUIDField(), help_text="The first hundred of its jobs that failed."
    )

    def to_representation(self, row: Any) -> dict[str, Any]:
        """Return the batch with the ids of these jobs."""
        row.failed_jobs = failed_jobs_of(row)
        return super().to_representation(row)
