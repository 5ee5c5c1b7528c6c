"""The fields of rows: times in UTC, ISO 8601 with Z; what is empty or unknown is null."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from django.db.models import Model
from rest_framework import serializers

from interfaces.moments import iso
from jobs.engine.redaction import redact_secrets


def help_of(model: type[Model], name: str, more: str = "") -> str:
    """Return the help text of a model's field, with null for what is empty there, and `more`."""
    text = str(model._meta.get_field(name).help_text)  # type: ignore[union-attr]  # no relation
    text = text.replace("empty", "null").replace("Empty", "Null")
    return f"{text} {more}" if more else text


REDACTED = "Secrets are masked; viewers see every value masked."


class TimestampField(serializers.DateTimeField):
    """A time as `iso` writes it."""

    def __init__(self, help_text: str = "", *, allow_null: bool = True, **options: Any) -> None:
        super().__init__(help_text=help_text, allow_null=allow_null, **options)

    def to_representation(self, value: Any) -> Any:
        """Return the time with Z."""
        return iso(value)


class NullableTextField(serializers.CharField):
    """A text; an empty one is null."""

    def __init__(self, help_text: str = "", **options: Any) -> None:
        super().__init__(help_text=help_text, allow_null=True, **options)

    def to_representation(self, value: Any) -> Any:
        """Return the text, None for an empty one."""
        return value or None


class EnumField(serializers.ChoiceField):
    """One value of an enum; an empty one is null."""

    def __init__(self, values: type[StrEnum], **options: Any) -> None:
        super().__init__([value.value for value in values], **options)

    def to_representation(self, value: Any) -> Any:
        """Return the value, None for an empty one."""
        return value or None


class RedactedField(serializers.JSONField):
    """JSON without secrets; `context["redact"]` may hide more, as a viewer's answers need."""

    def __init__(self, help_text: str = "", **options: Any) -> None:
        super().__init__(help_text=help_text, allow_null=True, **options)

    def to_representation(self, value: Any) -> Any:
        """Return the redacted JSON."""
        return self.context.get("redact", redact_secrets)(value)
