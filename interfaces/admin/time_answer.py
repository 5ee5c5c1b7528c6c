"""The form field of times, in UTC as the pages show them."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from django import forms
from django.utils import timezone
from unfold.widgets import UnfoldAdminTextInputWidget


class TimeAnswer(forms.DateTimeField):
    """A time in UTC to the minute; seconds can be typed."""

    def __init__(self, **options: Any) -> None:
        formats = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]
        widget = UnfoldAdminTextInputWidget(attrs={"type": "datetime-local"})
        super().__init__(input_formats=formats, widget=widget, **options)

    def to_python(self, value: Any) -> Any:
        """Return the time; Django would take it for one of the current time zone."""
        with timezone.override(UTC):
            return super().to_python(value)
