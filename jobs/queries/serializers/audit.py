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
    actor = serializers.CharField(
        source="actor_name", help_text="The user's name, or for example cli:deploy."
    )
    door = serializers.ChoiceField(get_args(Door), help_text="How the actor reached the service.")
    operation = serializers.CharField(source="act", help_text="For example job.retry.")
    target_type = serializers.CharField()
    target_id = serializers.CharField()
    reason = NullableTextField()
    before = RedactedField("The changed fields before; null if the caller may not see them.")
    after = RedactedField("The changed fields after; null if the caller may not see them.")
    correlation_id = NullableTextField("The correlation id of the request that did it.")
