"""The audit log."""

from __future__ import annotations

from typing import Any, get_args

from rest_framework import serializers

from jobs.queries.serializers.fields import NullableTextField, RedactedField, TimestampField
from tenants.audit import Door


class AuditEntrySerializer(serializers.Serializer[Any]):
    """One operation of a person or of the service itself."""

    id = serializers.UUIDField()
    firm = serializers.CharField(source="firm.slug", help_text="The firm's slug.")
    created_at = TimestampField()
    actor = serializers.CharField(source="actor_name", help_text="A user, or as in cli:deploy.")
    door = serializers.ChoiceField(get_args(Door), help_text="How the actor reached the service.")
    operation = serializers.CharField(source="act", help_text="Such as job.retry.")
    target_type = serializers.CharField()
    target_id = serializers.CharField()
    reason = NullableTextField()
    before = RedactedField("What was changed, as it was; null: it is not for the caller.")
    after = RedactedField("What was changed, as it became; null: it is not for the caller.")
    correlation_id = NullableTextField("Of the request that did it.")
