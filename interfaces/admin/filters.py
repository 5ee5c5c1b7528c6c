"""Filters of admin lists: their options come from code, never from rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from django.contrib.admin import SimpleListFilter
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.contrib.filters.admin import DropdownFilter

from interfaces.admin.base import ParameterRefused

# Value and text of each option.
Options = Sequence[tuple[str, str]]

SPANS: dict[str, tuple[str, timedelta]] = {
    "1h": ("Last hour", timedelta(hours=1)),
    "24h": ("Last 24 hours", timedelta(hours=24)),
    "7d": ("Last 7 days", timedelta(days=7)),
    "30d": ("Last 30 days", timedelta(days=30)),
}


class CheckedFilter(SimpleListFilter):
    """A filter that checks its value before it filters anything."""

    parameter_name: str

    def __init__(
        self,
        request: HttpRequest,
        params: dict[str, Any],
        model: type[Model],
        model_admin: Any,
    ) -> None:
        super().__init__(request, params, model, model_admin)
        self.check()

    def check(self) -> None:
        """Check the value.

        Raises:
            ParameterRefused: the filter does not know it.
        """
        raise NotImplementedError


class ChoiceFilter(CheckedFilter, DropdownFilter):
    """A dropdown over one field; a value that it does not offer is refused."""

    field = ""
    options: Options | Callable[[], Options] = ()

    def check(self) -> None:
        """Refuse a value that is not offered."""
        offered = [value for value, _ in self.offered()]
        if self.value() and self.value() not in offered:
            raise ParameterRefused(self.parameter_name, f"It is one of {', '.join(offered)}.")

    def lookups(self, request: HttpRequest, model_admin: Any) -> Options:
        """Return the options."""
        return self.offered()

    def offered(self) -> Options:
        """Return value and text of each option."""
        return self.options() if callable(self.options) else self.options

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Return the rows that match an offered value."""
        return rows.filter(**{self.field: value})

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that match the chosen value."""
        value = self.value()
        return self.narrow(rows, value) if value else rows


class FlagFilter(ChoiceFilter):
    """Rows whose boolean field is true, or false."""

    options = (("yes", "yes"), ("no", "no"))

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Return the rows whose field is as chosen."""
        return rows.filter(**{self.field: value == "yes"})


class SpanFilter(ChoiceFilter):
    """Rows whose time field is in the last hours or days."""

    title = "age"
    parameter_name = "age"
    field = "created_at"
    options = tuple((value, text) for value, (text, _) in SPANS.items())

    def now(self) -> datetime:
        """Return the end of the span."""
        return timezone.now()

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Return the rows of the span."""
        return rows.filter(**{f"{self.field}__gte": self.now() - SPANS[value][1]})


def field_filter(
    name: str,
    options: Options | Callable[[], Options] = (),
    *,
    field: str = "",
    title: str = "",
    base: type[ChoiceFilter] = ChoiceFilter,
) -> type[ChoiceFilter]:
    """Return a filter class; `name` is its query parameter, and its field and title by default."""
    attributes: dict[str, Any] = {
        "__doc__": f"Rows of one {title or name}.",
        "title": title or name,
        "parameter_name": name,
        "field": field or name,
    }
    if options:
        attributes["options"] = staticmethod(options) if callable(options) else options
    return cast("type[ChoiceFilter]", type(f"{name.title()}Filter", (base,), attributes))
