"""The form fields of a timetable, for reminders and agent schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.http import HttpRequest

from interfaces.admin.operations import OperationForm
from interfaces.admin.time_answer import TimeAnswer
from jobs.registry.timetable import MAX_CRON_LENGTH, MAX_INTERVAL_SECONDS, TimetableInvalid
from mail.models.recurring import MAX_ZONE_LENGTH, RecurringRow

_FORMAT = "%Y-%m-%dT%H:%M:%S"


class TimetableFields(OperationForm):
    """When a row is due."""

    from_row: ClassVar[tuple[str, ...]] = ("cron", "interval_seconds", "time_zone")
    due_at = TimeAnswer(
        required=False,
        label="Due (UTC)",
        help_text="The next date; empty: the first of the cron expression or interval.",
    )
    cron = forms.CharField(
        required=False,
        max_length=MAX_CRON_LENGTH,
        empty_value=None,
        widget=forms.TextInput(attrs={"placeholder": "30 8 * * MON-FRI"}),
        help_text="Minute, hour, day, month, weekday. Give this, an interval, or neither: then it "
        "is due only once.",
    )
    interval_seconds = forms.IntegerField(
        required=False, min_value=1, max_value=MAX_INTERVAL_SECONDS, label="Interval in seconds"
    )
    time_zone = forms.CharField(
        initial="UTC",
        max_length=MAX_ZONE_LENGTH,
        help_text="The time zone of the cron expression, such as Europe/Vienna.",
    )

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Set the current dates."""
        super().prepare(request, row)
        self._due_at: datetime | None = None if row is None else row.due_at
        if row is not None:
            shown = None if row.due_at is None else f"{row.due_at:{_FORMAT}}"
            self.initial["due_at"] = shown

    def clean(self) -> dict[str, Any]:
        """Leave out an unchanged date, so that a new timetable computes its own."""
        answers: dict[str, Any] = super().clean() or self.cleaned_data
        given, stored = answers.get("due_at"), self._due_at
        if stored is not None and given == stored.replace(microsecond=0):
            answers.pop("due_at")
        return answers


def timetable_text(row: RecurringRow) -> str:
    """Return in plain English when the row is due."""
    try:
        return "Once" if row.timetable is None else row.timetable.in_words()
    except TimetableInvalid:
        return "its timetable cannot be read"
