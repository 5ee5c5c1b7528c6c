"""What answers look like, for the OpenAPI schema; `jobs.queries.serializers` builds them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from rest_framework import serializers

from jobs.queries.stats import WINDOW_MINUTES
from jobs.queries.why_waiting import WaitCode
from jobs.states import (
    AttemptEnd,
    BreakerState,
    Category,
    DeadReason,
    MissedRuns,
    Priority,
    Resolution,
    ScheduleTarget,
    Status,
)


def _word(words: type[StrEnum], **options: Any) -> serializers.ChoiceField:
    return serializers.ChoiceField([word.value for word in words], **options)


def _moment(help_text: str = "") -> serializers.DateTimeField:
    return serializers.DateTimeField(allow_null=True, help_text=help_text)


def _text(help_text: str = "") -> serializers.CharField:
    return serializers.CharField(allow_null=True, help_text=help_text)


class JobRowSerializer(serializers.Serializer[Any]):
    """A job in a list."""

    job_id = serializers.UUIDField()
    firm = serializers.CharField(help_text="The firm's slug.")
    category = _word(Category)
    job_type = serializers.CharField()
    status = _word(Status)
    priority = serializers.IntegerField(
        min_value=min(Priority), max_value=max(Priority), help_text="Lower runs first."
    )
    attempts = serializers.IntegerField(help_text="Claims so far in this series.")
    max_attempts = serializers.IntegerField()
    correlation_id = serializers.CharField(help_text="Shared by all jobs of one request or event.")
    parent_id = serializers.UUIDField(
        allow_null=True, help_text="The job whose handler enqueued this one."
    )
    lock_key = _text("At most one job of the firm with this key runs at a time.")
    idempotency_key = _text()
    last_error = _text("Redacted.")
    scheduled_at = _moment("Not before this time.")
    created_at = _moment()
    started_at = _moment()
    completed_at = _moment()


class AttemptSerializer(serializers.Serializer[Any]):
    """An attempt that did not complete its job."""

    series = serializers.IntegerField(help_text="Grows with every manual retry or reprocess.")
    number = serializers.IntegerField(help_text="From 1, within its series.")
    worker_id = serializers.UUIDField(allow_null=True)
    started_at = _moment()
    ended_at = _moment()
    end = _word(AttemptEnd)
    error_class = _text()
    message = _text("Redacted.")
    traceback = _text()


class StepSerializer(serializers.Serializer[Any]):
    """A finished step of a job."""

    name = serializers.CharField()
    result = serializers.JSONField(allow_null=True)
    finished_at = _moment()


class WaitReasonSerializer(serializers.Serializer[Any]):
    """One thing that stands in a job's way."""

    code = _word(WaitCode)
    detail = serializers.CharField()
    until = _moment("When it ends, where that is known.")


class JobDetailSerializer(JobRowSerializer):
    """A job with everything that belongs to it."""

    payload = serializers.JSONField(
        allow_null=True, help_text="Secrets are masked; for a viewer every value is."
    )
    result = serializers.JSONField(
        allow_null=True, help_text="Secrets are masked; for a viewer every value is."
    )
    attempts_log = AttemptSerializer(many=True)
    steps = StepSerializer(many=True)
    children = JobRowSerializer(many=True, help_text="Jobs this job's handler enqueued.")
    dead_letter_id = serializers.UUIDField(allow_null=True)
    why_waiting = WaitReasonSerializer(many=True)


class DeadLetterSerializer(serializers.Serializer[Any]):
    """A job that will not be tried again by itself."""

    id = serializers.UUIDField()
    job_id = serializers.UUIDField()
    firm = serializers.CharField(help_text="The firm's slug.")
    category = _word(Category)
    job_type = serializers.CharField()
    reason = _word(DeadReason)
    error_class = _text()
    error = _text("Redacted.")
    fingerprint = _text("The same failure has the same fingerprint.")
    moved_at = _moment("When the job was dead-lettered.")
    resolution = _word(Resolution, allow_null=True, help_text="Null while nobody decided.")
    resolution_note = _text()
    reviewed_by = _text("Who decided.")
    reviewed_at = _moment()
    assigned_to = _text("Who was asked to look.")


class LockSerializer(serializers.Serializer[Any]):
    """A held lock."""

    id = serializers.UUIDField()
    firm = serializers.CharField(help_text="The firm's slug.")
    lock_key = serializers.CharField()
    slot = serializers.IntegerField(help_text="From 0 to the key's limit minus one.")
    holder_id = serializers.CharField(help_text="job:ID for a job's own lock.")
    acquired_at = _moment()
    expires_at = _moment("Null for a job's own lock, which lives as long as the job holds it.")
    fencing_token = serializers.IntegerField(help_text="Higher with each acquisition.")


class PauseSerializer(serializers.Serializer[Any]):
    """What holds work back until somebody resumes it, or until its time is over."""

    id = serializers.UUIDField()
    firm = _text("The firm's slug; null where it holds everywhere.")
    everywhere = serializers.BooleanField(help_text="Whether it holds for every firm.")
    category = _word(Category, allow_null=True, help_text="Null means every category.")
    job_type = _text("Null means every type.")
    reason = serializers.CharField()
    paused_by = serializers.CharField(help_text="Who did it.")
    created_at = _moment()
    until = _moment("When it ends by itself; null means by hand.")


class RateLimitSerializer(serializers.Serializer[Any]):
    """How often a type may start, each firm counted for itself."""

    id = serializers.UUIDField()
    firm = _text("The firm's slug; null where it holds everywhere.")
    everywhere = serializers.BooleanField(help_text="Whether it holds for every firm.")
    job_type = serializers.CharField()
    amount = serializers.IntegerField(help_text="So many starts,")
    per_seconds = serializers.FloatField(help_text="in so many seconds.")
    burst = serializers.IntegerField(help_text="Most that may start at once after a quiet time.")
    created_at = _moment()


class BreakerSerializer(serializers.Serializer[Any]):
    """Whether a type's jobs of a firm are tried, and when again."""

    id = serializers.UUIDField()
    firm = serializers.CharField(help_text="The firm's slug.")
    job_type = serializers.CharField()
    state = _word(BreakerState, help_text="Closed: all are tried. Half open: one is. Open: none.")
    attempts = serializers.IntegerField(help_text="In this window, while it is closed.")
    failed = serializers.IntegerField(help_text="Of those, with the most frequent failure.")
    trips = serializers.IntegerField(help_text="How often it opened in a row.")
    fingerprint = _text("The failure that opened it.")
    opened_at = _moment("Null while it is closed.")
    next_try_at = _moment("When one job is tried; null unless it is open.")
    probe_job_id = serializers.UUIDField(allow_null=True, help_text="The job that is tried.")


class ScheduleRowSerializer(serializers.Serializer[Any]):
    """A schedule in a list."""

    id = serializers.UUIDField()
    firm = serializers.CharField(help_text="The firm's slug.")
    name = serializers.CharField()
    target = _word(ScheduleTarget, help_text="Whom each run is for.")
    group_name = _text("Which group, for target every_member.")
    cron = _text("Minute, hour, day, month, weekday; null where it runs by an interval.")
    interval_seconds = serializers.IntegerField(allow_null=True)
    time_zone = serializers.CharField(help_text="The zone whose clock `cron` names.")
    timetable = _text("When it runs, in words; null where that cannot be read.")
    job_type = serializers.CharField()
    priority = serializers.IntegerField(min_value=min(Priority), max_value=max(Priority))
    missed_runs = _word(MissedRuns, help_text="What becomes of runs that no worker was there for.")
    enabled = serializers.BooleanField(help_text="False while it is paused.")
    last_run_at = _moment()
    next_run_at = _moment("Null while it is paused.")
    last_error = _text("Why the last run came to nothing. Redacted.")
    created_at = _moment()
    updated_at = _moment()


class ScheduleDetailSerializer(ScheduleRowSerializer):
    """A schedule with its payload and its next runs."""

    payload = serializers.JSONField(
        allow_null=True, help_text="Secrets are masked; for a viewer every value is."
    )
    next_runs = serializers.ListField(
        child=serializers.DateTimeField(), help_text="None while it is paused."
    )


class WorkerSerializer(serializers.Serializer[Any]):
    """A worker process. Workers serve every firm."""

    id = serializers.UUIDField()
    host = serializers.CharField()
    pid = serializers.IntegerField()
    version = serializers.CharField()
    categories = serializers.ListField(child=serializers.CharField(), help_text="Empty means all.")
    job_types = serializers.ListField(
        child=serializers.CharField(), help_text="The types its code knows."
    )
    concurrency = serializers.IntegerField(help_text="Handlers it runs at a time.")
    running = serializers.ListField(
        child=serializers.UUIDField(), help_text="What it runs now of the caller's firms."
    )
    rss_bytes = serializers.IntegerField(help_text="Resident memory.")
    started_at = _moment()
    heartbeat_at = _moment()
    lease_expires_at = _moment("Its jobs are rescued when this passes without a heartbeat.")
    dead_at = _moment("When its lease was found to be over; null while it lives.")


class StatusCountsSerializer(serializers.Serializer[Any]):
    """Jobs by status: live ones and dead letters as of now, the rest from counters."""

    pending = serializers.IntegerField()
    claimed = serializers.IntegerField()
    processing = serializers.IntegerField()
    completed = serializers.IntegerField()
    failed = serializers.IntegerField()
    dlq = serializers.IntegerField()
    canceled = serializers.IntegerField()


class CategoryStatsSerializer(StatusCountsSerializer):
    """One category's figures."""

    category = _word(Category)
    runnable = serializers.IntegerField(help_text="Due, and nothing in their way.")
    scheduled = serializers.IntegerField(help_text="Not due yet.")
    waiting_lock = serializers.IntegerField(help_text="Due, and waiting for a lock.")
    oldest_wait_seconds = serializers.FloatField(
        allow_null=True, help_text="How long the oldest due job has waited."
    )
    completed_per_minute = serializers.FloatField(help_text="Over the window.")
    failure_rate = serializers.FloatField(
        allow_null=True, help_text="Failed of settled, 0 to 1; null where nothing settled."
    )


class QueueStatsSerializer(serializers.Serializer[Any]):
    """What waits, what runs, what came of the rest, in the caller's firms."""

    generated_at = serializers.DateTimeField()
    window_minutes = serializers.IntegerField(
        help_text=f"What the rates look back on: always {WINDOW_MINUTES}."
    )
    totals = StatusCountsSerializer()
    categories = CategoryStatsSerializer(many=True)
    workers = serializers.IntegerField(help_text="Live workers; they serve every firm.")
    dead_letters_open = serializers.IntegerField()
