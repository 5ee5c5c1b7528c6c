"""Groups of dead letters, and bulk runs. Select a run's firm with the rows."""

from __future__ import annotations

from typing import Any

from django.utils.functional import cached_property
from rest_framework import serializers

from jobs.models import BulkRun
from jobs.queries.groups import TREND_PARTS
from jobs.queries.serializers.fields import EnumField, NullableTextField, TimestampField, help_of
from jobs.queries.serializers.jobs import WaitReasonSerializer
from jobs.states import BulkOperation, BulkState, DeadReason, Priority, Status


class _PairSerializer(serializers.Serializer[Any]):
    """A word and how many rows have it, from a tuple."""

    count = serializers.IntegerField()

    def to_representation(self, pair: Any) -> dict[str, Any]:
        """Return the pair by the names of the fields."""
        word, number = pair
        return {self._name: word, "count": number}

    @cached_property
    def _name(self) -> str:
        (name,) = self.fields.keys() - {"count"}
        return str(name)


class FirmCountSerializer(_PairSerializer):
    """How many of the rows one firm has."""

    firm = serializers.CharField(help_text="The firm's slug.")


class RefusalSerializer(_PairSerializer):
    """Why members of a bulk run were refused."""

    reason = serializers.CharField()


class GroupSerializer(serializers.Serializer[Any]):
    """The open dead letters of one failure."""

    fingerprint = NullableTextField("Equal failures have the same fingerprint.")
    count = serializers.IntegerField()
    first_seen = TimestampField("When the oldest of them was dead-lettered.")
    last_seen = TimestampField("When the latest of them was dead-lettered.")
    firms = FirmCountSerializer(many=True, help_text="Slug and count; the most affected first.")
    job_types = serializers.ListField(
        child=serializers.CharField(), help_text="Type and count; the most frequent first."
    )
    trend = serializers.ListField(
        child=serializers.IntegerField(),
        help_text=f"Counts of the last day, oldest first, in {TREND_PARTS} parts of two hours.",
    )
    sample_id = serializers.UUIDField(source="sample.pk", help_text="The latest dead letter.")
    reason = EnumField(DeadReason, source="sample.reason")
    error_class = NullableTextField(source="sample.error_class")
    error = NullableTextField("The sample's error; redacted.", source="sample.error")


class GroupsSerializer(serializers.Serializer[Any]):
    """The largest groups, largest first."""

    results = GroupSerializer(many=True)
    more = serializers.BooleanField(help_text="Whether smaller groups were left out.")


class CauseSerializer(serializers.Serializer[Any]):
    """How many rows have the same failure; of jobs, the same type and status."""

    job_type = serializers.CharField()
    cause = NullableTextField("The error class; for jobs, the status.")
    fingerprint = NullableTextField("Null for jobs.")
    count = serializers.IntegerField()


class BulkTotalsSerializer(serializers.Serializer[Any]):
    """What a bulk run would be done to."""

    count = serializers.IntegerField(help_text="Rows whose state allows the operation now.")
    causes = CauseSerializer(many=True, help_text="The most frequent ones.")
    firms = FirmCountSerializer(many=True)


class _RunUrlField(serializers.CharField):
    """The address of a run below `context["runs"]`."""

    def to_representation(self, pk: Any) -> str:
        """Return the address."""
        return f"{self.context['runs']}{pk}/"


class BulkStartedSerializer(serializers.Serializer[Any]):
    """A bulk run that was started."""

    run_id = serializers.UUIDField(source="pk", help_text="Also `bulk_run` in the audit log.")
    job_id = serializers.UUIDField(help_text=help_of(BulkRun, "job_id"))
    count = serializers.IntegerField(source="total", help_text="The number of members.")
    url = _RunUrlField(source="pk", help_text="The address that shows the run's progress.")


class CanarySerializer(serializers.Serializer[Any]):
    """The first members, whose end decides about the others."""

    size = serializers.IntegerField(source="canary_size")
    max_failure_rate = serializers.FloatField(source="canary_max_failure_rate")
    passed_at = TimestampField(source="canary_passed_at")


class BulkRunSerializer(serializers.Serializer[Any]):
    """One operation on many dead letters or jobs."""

    id = serializers.UUIDField(help_text="Also `bulk_run` in the audit log.")
    firm = serializers.CharField(
        source="firm.slug",
        help_text="The firm's slug; the system firm's if the run is for every firm.",
    )
    operation = EnumField(BulkOperation)
    state = EnumField(BulkState)
    selection = serializers.JSONField(help_text=help_of(BulkRun, "selection"))
    reason = NullableTextField()
    priority = serializers.IntegerField(
        allow_null=True, min_value=min(Priority), max_value=max(Priority)
    )
    rate_per_second = serializers.FloatField(allow_null=True, help_text="Null means no limit.")
    canary = CanarySerializer(source="*", help_text="A size of 0 means none.")
    total = serializers.IntegerField(help_text="The number of members, fixed at the start.")
    done = serializers.IntegerField()
    refused = serializers.IntegerField(
        help_text="Members whose state no longer allowed the operation."
    )
    job_id = serializers.UUIDField(help_text=help_of(BulkRun, "job_id"))
    correlation_id = serializers.CharField(
        help_text="The correlation id of the job and of every audit entry."
    )
    started_by = serializers.CharField(source="started_by_name")
    created_at = TimestampField()
    last_chunk_at = TimestampField("When members were last handled.")
    finished_at = TimestampField()


class BulkRunDetailSerializer(BulkRunSerializer):
    """A bulk run with what became of its members."""

    job_status = EnumField(
        Status,
        allow_null=True,
        help_text="The status of the run's job. If the job was canceled or dead-lettered, "
        "retry it, and the run continues.",
    )
    why_waiting = WaitReasonSerializer(
        many=True, source="reasons", help_text="Why the run's job is waiting."
    )
    refusals = RefusalSerializer(many=True)

    def get_fields(self) -> dict[str, Any]:
        """Read the fields of a list's row from the `run` of `RunDetails`."""
        fields = super().get_fields()
        for name in BulkRunSerializer().get_fields():
            source = fields[name].source
            fields[name].source = "run" if source == "*" else f"run.{source or name}"
        return fields
