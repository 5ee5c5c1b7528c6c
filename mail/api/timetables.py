"""The fields of a timetable over REST, for reminders and agent schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rest_framework import serializers

from interfaces.api.serializers import MomentField, StrictSerializer, TextField, WholeNumberField
from jobs.queries.serializers.fields import NullableTextField, TimestampField
from jobs.registry.timetable import MAX_CRON_LENGTH, MAX_INTERVAL_SECONDS
from mail.models.recurring import MAX_ZONE_LENGTH

_CRON = "A cron expression: minute, hour, day, month, weekday. Either this or an interval."


class TimetableSerializer(serializers.Serializer[Any]):
    """When a row is due."""

    due_at = TimestampField("The next date that is not in the queue yet; null: none.")
    queued_at = TimestampField("The last date that was put into the queue.")
    cron = NullableTextField(_CRON)
    interval_seconds = serializers.IntegerField(
        allow_null=True, help_text="How many seconds lie between two dates."
    )
    time_zone = serializers.CharField(help_text="The time zone of the cron expression.")


class OffsetMomentField(MomentField):
    """A time with its offset, because without one its time zone would not be clear."""

    default_error_messages = {
        "no_offset": "Give the time's offset from UTC: 2026-05-04T09:00:00+02:00, or Z."
    }

    def enforce_timezone(self, value: datetime) -> datetime:
        """Return the time unchanged; refuse one without an offset."""
        if value.tzinfo is None:
            self.fail("no_offset")
        return super().enforce_timezone(value)


class TimetableSettings(StrictSerializer):
    """When a row is to be due."""

    due_at = OffsetMomentField(
        required=False,
        allow_null=True,
        help_text="The next date, with its offset from UTC; without it, the timetable's next date.",
    )
    cron = TextField(required=False, allow_null=True, max_length=MAX_CRON_LENGTH, help_text=_CRON)
    interval_seconds = WholeNumberField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MAX_INTERVAL_SECONDS,
        help_text="How many seconds lie between two dates.",
    )
    time_zone = TextField(
        required=False, max_length=MAX_ZONE_LENGTH, help_text="A name such as Europe/Vienna."
    )
