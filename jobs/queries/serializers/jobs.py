"""Jobs and dead letters. Select the firm, and a dead letter's job and people, with the rows."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from jobs.engine.batches import EVENTS
from jobs.models import Attempt, AttemptLog, DeadLetterQueue, JobQueue
from jobs.queries.serializers.fields import (
    REDACTED,
    EnumField,
    NullableTextField,
    RedactedField,
    TimestampField,
    help_of,
)
from jobs.queries.why_waiting import WaitCode
from jobs.states import (
    AttemptEnd,
    Category,
    CountedBy,
    DeadReason,
    Priority,
    Resolution,
    Status,
)


class JobRowSerializer(serializers.Serializer[Any]):
    """A job in a list."""

    job_id = serializers.UUIDField()
    firm = serializers.CharField(source="firm.slug", help_text="The firm's slug.")
    category = EnumField(Category)
    job_type = serializers.CharField()
    status = EnumField(Status)
    priority = serializers.IntegerField(
        min_value=min(Priority), max_value=max(Priority), help_text="Lower runs first."
    )
    attempts = serializers.IntegerField(help_text=help_of(JobQueue, "attempts"))
    max_attempts = serializers.IntegerField()
    correlation_id = serializers.CharField(help_text="Shared by all jobs of one request or event.")
    parent_id = serializers.UUIDField(
        allow_null=True, help_text="The job whose handler enqueued this one."
    )
    lock_key = NullableTextField(
        "At most one job with this key runs at a time, or as many as its type allows: of the firm, "
        "or of all firms (`lock_counted_by`)."
    )
    limit_key = NullableTextField(help_of(JobQueue, "limit_key"))
    limit_units = serializers.IntegerField(
        help_text="How many units the job counts as in rate limits."
    )
    idempotency_key = NullableTextField()
    last_error = NullableTextField("Redacted.")
    scheduled_at = TimestampField("Not before this time.")
    created_at = TimestampField()
    started_at = TimestampField()
    completed_at = TimestampField()


class AttemptSerializer(serializers.Serializer[Any]):
    """An attempt that did not complete its job."""

    series = serializers.IntegerField(help_text="Grows with every manual retry or reprocess.")
    number = serializers.IntegerField(help_text=help_of(Attempt, "number"))
    worker_id = serializers.UUIDField(allow_null=True)
    started_at = TimestampField()
    ended_at = TimestampField()
    end = EnumField(AttemptEnd)
    error_class = NullableTextField()
    message = NullableTextField("Redacted.")
    traceback = NullableTextField()


class StepSerializer(serializers.Serializer[Any]):
    """A finished step of a job."""

    name = serializers.CharField()
    result = RedactedField()
    started_at = TimestampField("Null for steps stored by an earlier version.")
    finished_at = TimestampField()


class WaitReasonSerializer(serializers.Serializer[Any]):
    """One reason why a job is not running."""

    code = EnumField(WaitCode)
    detail = serializers.CharField()
    until = TimestampField("When the reason ends, if that is known.")


class LogLineSerializer(serializers.Serializer[Any]):
    """What the job's handler noted."""

    series = serializers.IntegerField(help_text="Grows with every manual retry or reprocess.")
    number = serializers.IntegerField(help_text=help_of(AttemptLog, "number"))
    at = TimestampField()
    text = serializers.CharField(help_text="Redacted.")


class ThenSerializer(serializers.Serializer[Any]):
    """Jobs that are enqueued later, one after the other."""

    job_types = serializers.ListField(child=serializers.CharField())
    only_completed = serializers.BooleanField(
        help_text="True: the later jobs wait until the jobs before them are completed. "
        "False: they wait until those are settled, whatever their status."
    )
    waits_for = serializers.IntegerField(help_text="How many jobs the later jobs still wait for.")


class BatchNameSerializer(serializers.Serializer[Any]):
    """A batch, by its id and its name."""

    id = serializers.UUIDField()
    name = NullableTextField()


class CallbackOfSerializer(serializers.Serializer[Any]):
    """A batch that enqueued the job, and the event on which it did."""

    id = serializers.UUIDField(source="batch.pk")
    name = NullableTextField(source="batch.name")
    event = serializers.ChoiceField(
        list(EVENTS),
        help_text=(
            "failed: one of its jobs failed; settled: all are settled; completed: all are "
            "completed."
        ),
    )


class JobDetailSerializer(JobRowSerializer):
    """A job with everything that belongs to it."""

    progress = serializers.FloatField(
        allow_null=True,
        source="job.progress",
        help_text=help_of(JobQueue, "progress"),
    )
    progress_note = NullableTextField(
        "The handler's note on its progress.", source="job.progress_note"
    )
    lock_counted_by = EnumField(
        CountedBy,
        source="job.lock_counted_by",
        help_text=help_of(JobQueue, "lock_counted_by"),
    )
    payload = RedactedField(REDACTED, source="job.payload")
    result = RedactedField(REDACTED, source="job.result")
    attempts_log = AttemptSerializer(many=True, source="attempts")
    steps = StepSerializer(many=True)
    log = LogLineSerializer(many=True, help_text="What the handler logged in the latest attempts.")
    children = JobRowSerializer(many=True, help_text="Jobs that this job's handler enqueued.")
    batches = BatchNameSerializer(
        many=True,
        help_text=(
            "The batches that the job belongs to; several if it has the key of jobs of other "
            "batches."
        ),
    )
    callback_of = CallbackOfSerializer(
        many=True,
        help_text=(
            "The batches that enqueued this job at one of their events, or for which it has the "
            "key of such a job."
        ),
    )
    then = ThenSerializer(
        many=True, help_text="Jobs that are enqueued after this job or its children."
    )
    dead_letter_id = serializers.UUIDField(allow_null=True, source="dead_letter.pk")
    why_waiting = WaitReasonSerializer(many=True, source="reasons")

    def get_fields(self) -> dict[str, Any]:
        """Read the fields of a list's row from the `job` of `JobDetails`."""
        fields = super().get_fields()
        for name in JobRowSerializer().get_fields():
            fields[name].source = f"job.{fields[name].source or name}"
        return fields


class EnqueuedJobSerializer(JobDetailSerializer):
    """The job that an enqueue stored or found, and which of both."""

    created = serializers.BooleanField(
        help_text="Whether a job was stored now; if not, this job had the idempotency key already."
    )
    replaced = serializers.BooleanField(
        help_text="Whether `on_conflict` changed the job that had the key; if not, it was left "
        "unchanged."
    )


class DeadLetterSerializer(serializers.Serializer[Any]):
    """A job that will not be tried again by itself."""

    id = serializers.UUIDField()
    job_id = serializers.UUIDField(source="original_job_id")
    firm = serializers.CharField(source="firm.slug", help_text="The firm's slug.")
    category = EnumField(Category, source="original_job.category")
    job_type = serializers.CharField(source="original_job.job_type")
    reason = EnumField(DeadReason)
    error_class = NullableTextField()
    error = NullableTextField("Redacted.")
    fingerprint = NullableTextField("Equal failures have the same fingerprint.")
    moved_at = TimestampField("When the job was dead-lettered.")
    resolution = EnumField(
        Resolution, allow_null=True, help_text=help_of(DeadLetterQueue, "resolution")
    )
    resolution_note = NullableTextField()
    reviewed_by = NullableTextField("Who decided.", source="reviewed_by.get_username")
    reviewed_at = TimestampField()
    assigned_to = NullableTextField("Who was asked to decide.", source="assigned_to.get_username")
