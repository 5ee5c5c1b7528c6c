"""What a rehearsal did."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from jobs.queries.serializers.fields import NullableTextField, RedactedField, TimestampField

OUTCOMES = (
    "completed", "retried", "snoozed", "canceled", "dead_lettered", "released", "unfinished",
)  # fmt: skip


class _ErrorSerializer(serializers.Serializer[Any]):
    error_class = NullableTextField()
    message = serializers.CharField(help_text="Redacted.")
    traceback = NullableTextField("Redacted.")
    fingerprint = NullableTextField("Equal failures have the same fingerprint.")


class _WriteSerializer(serializers.Serializer[Any]):
    table = serializers.CharField()
    rows = NullableTextField("The name of the model or table.")
    inserted = serializers.IntegerField()
    updated = serializers.IntegerField()
    deleted = serializers.IntegerField()
    ids = serializers.ListField(
        child=serializers.CharField(),
        help_text="Ids of the first rows that were saved or deleted one by one.",
    )


class _ChildSerializer(serializers.Serializer[Any]):
    job_type = serializers.CharField()
    firm = serializers.CharField(help_text="The firm's slug.")
    payload = RedactedField("Secrets are masked.")
    priority = serializers.IntegerField()
    scheduled_at = TimestampField("When the job would be due; null if it is enqueued later.")
    after = NullableTextField("After what it is enqueued; null if at once.")
    lock_key = NullableTextField()
    idempotency_key = NullableTextField()


class _CallSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField(
        help_text="network, process, email, file, database, signal or callback."
    )
    target = serializers.CharField(help_text="Redacted.")
    count = serializers.IntegerField(help_text="How many times it was tried.")


class _StepSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    was_stored = serializers.BooleanField(
        help_text="Whether an earlier attempt finished the step, so that it did not run."
    )
    result = RedactedField("Secrets are masked.")


class RehearsalSerializer(serializers.Serializer[Any]):
    """What the job would do; all of it was undone."""

    dead_letter_id = serializers.UUIDField()
    job_id = serializers.UUIDField()
    job_type = serializers.CharField()
    outcome = serializers.ChoiceField(
        OUTCOMES,
        help_text="How the attempt would end; `unfinished` if the rehearsal ended first.",
    )
    error = _ErrorSerializer(allow_null=True)
    result = RedactedField("What the handler returned; secrets are masked.")
    delay_seconds = serializers.FloatField(
        allow_null=True, help_text="In how many seconds the job would run again."
    )
    seconds = serializers.FloatField(allow_null=True, help_text="How long the handler ran.")
    writes = _WriteSerializer(many=True, help_text="Rows written, by table.")
    children = _ChildSerializer(many=True, help_text="The jobs it would enqueue.")
    calls = _CallSerializer(
        many=True, help_text="Calls that the handler tried to make; none was made."
    )
    steps = _StepSerializer(many=True, help_text="The durable steps, in order.")
    log = serializers.ListField(
        child=serializers.CharField(), help_text="The first lines that the handler logged."
    )
