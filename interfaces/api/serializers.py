"""Serializers for requests: they refuse unknown fields and values of another type."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from django.http import QueryDict
from rest_framework import serializers
from rest_framework.fields import empty

from interfaces.moments import YEARS, is_in_range


class StrictSerializer(serializers.Serializer[Any]):
    """Refuses fields it does not know, by name."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the validated values.

        Raises:
            ValidationError: naming each unknown or wrong field.
        """
        unknown = data.keys() - self.fields.keys() if isinstance(data, Mapping) else set()
        fault = serializers.ErrorDetail(
            "This parameter or field is not known here.", "unknown_field"
        )
        faults: dict[str, Any] = {str(name): [fault] for name in sorted(unknown)}
        values = None
        try:
            values = super().to_internal_value(data)
        except serializers.ValidationError as error:
            faults |= cast("dict[str, Any]", error.detail)
        if faults:
            raise serializers.ValidationError(faults)
        return values


class QuerySerializer(StrictSerializer):
    """Reads query parameters, each given once."""

    @classmethod
    def read(cls, parameters: QueryDict) -> dict[str, Any]:
        """Return the validated parameters, those with a default among them.

        Raises:
            ValidationError: naming each parameter that is unknown, repeated or wrong.
        """
        repeated = [name for name, values in parameters.lists() if len(values) > 1]
        if repeated:
            fault = serializers.ErrorDetail("Give this only once.", "repeated")
            raise serializers.ValidationError({name: [fault] for name in repeated})
        # A plain dict, because DRF takes an empty value in a QueryDict for a missing one.
        serializer = cls(data=parameters.dict())
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)


class NoQuery(QuerySerializer):
    """No query parameters."""


class TextField(serializers.CharField):
    """A JSON string, not a number or boolean; its length includes spaces, as the schema says."""

    def run_validation(self, data: Any = empty) -> Any:
        """Check the length before the text is trimmed."""
        if isinstance(data, str) and self.max_length is not None and len(data) > self.max_length:
            self.fail("max_length", max_length=self.max_length)
        return super().run_validation(data)

    def to_internal_value(self, data: Any) -> str:
        """Return the text."""
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class WholeNumberField(serializers.IntegerField):
    """A JSON integer, not a string or a float that looks like one."""

    def to_internal_value(self, data: Any) -> int:
        """Return the number."""
        if not isinstance(data, int) or isinstance(data, bool):
            self.fail("invalid")
        return data


class NumberField(serializers.FloatField):
    """A JSON number, not a string that looks like one."""

    def to_internal_value(self, data: Any) -> float:
        """Return the number."""
        if not isinstance(data, int | float) or isinstance(data, bool):
            self.fail("invalid")
        try:
            return float(data)
        except OverflowError:
            self.fail("invalid")


class FlagField(serializers.BooleanField):
    """A JSON boolean, not a string or number that means one."""

    def to_internal_value(self, data: Any) -> bool:
        """Return the flag."""
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class MomentField(serializers.DateTimeField):
    """A time, ISO 8601; without a zone it is UTC."""

    default_error_messages = {"out_of_range": f"Give {YEARS}."}

    def __init__(self, **options: Any) -> None:
        # Not the zone of the settings, which a caller of the API does not know.
        super().__init__(default_timezone=UTC, **options)

    def to_internal_value(self, value: Any) -> datetime:
        """Return the aware time."""
        moment: datetime = super().to_internal_value(value)
        if not is_in_range(moment):
            self.fail("out_of_range")
        return moment
