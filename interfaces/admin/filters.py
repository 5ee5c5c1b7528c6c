"""Filters of admin lists: their options come from code, never from rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from django.contrib.admin import SimpleListFilter
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.text import capfirst
from unfold.contrib.filters.admin import DropdownFilter, TextFilter

from interfaces.admin.base import ParameterRefused

# Value and text of each option.
Options = Sequence[tuple[str, str]]

SPANS: dict[str, tuple[str, timedelta]] = {
    "1h": ("Last hour", timedelta(hours=1)),
    "24h": ("Last 24 hours", timedelta(hours=24)),
    "7d": ("Last 7 days", timedelta(days=7)),
    "30d": ("Last 30 days", timedelta(days=30)),
}

# The first and the last year of a period; no row is older or newer.
YEARS = (2000, 2999)


class _TitledFilter(SimpleListFilter):
    """A filter whose label is its title, without Django's "By", which does not suit every title."""

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        """Name the field of Unfold's form."""
        shown: Iterator[Any] = super().choices(changelist)
        for choice in shown:
            for field in choice["form"].fields.values():
                field.label = capfirst(str(self.title))
            yield choice


class TermFilter(_TitledFilter, TextFilter):
    """A filter by what is typed."""


class ChoiceFilter(_TitledFilter, DropdownFilter):
    """A dropdown over one field; a value that it does not offer is refused."""

    parameter_name: str
    field = ""
    options: Options | Callable[[], Options] = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> Options:
        """Return the options."""
        return self.options() if callable(self.options) else self.options

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Return the rows that match an offered value."""
        return rows.filter(**{self.field: value})

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that match the chosen value.

        Raises:
            ParameterRefused: the value is not offered.
        """
        value = self.value()
        if not value:
            return rows
        offered = [option for option, _ in self.lookup_choices]
        if value not in offered:
            raise ParameterRefused(
                self.parameter_name, f"The value must be one of {', '.join(offered)}."
            )
        return self.narrow(rows, value)


class SpanFilter(ChoiceFilter):
    """Rows whose time field is in the last hours or days."""

    title = "age"
    parameter_name = "age"
    field = "created_at"
    options = tuple((value, text) for value, (text, _) in SPANS.items())

    def now(self) -> datetime | Now:
        """Return the end of the span, the database's time."""
        return Now()

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Return the rows of the span."""
        return rows.filter(**{f"{self.field}__gte": self.now() - SPANS[value][1]})


class LinkFilter(ChoiceFilter):
    """A filter that only links set; it is shown while it is set."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> Options:
        """Return the value of the address, if there is one."""
        value = request.GET.get(self.parameter_name, "")
        return ((value, self.text_of(value)),) if value else ()

    def text_of(self, value: str) -> str:
        """Return the value as the page shows it.

        Raises:
            ParameterRefused: no link has this value.
        """
        return value


class PeriodFilter(LinkFilter):
    """Rows whose time field is in a period, as links give it: START..END, in ISO 8601."""

    field = ""

    def text_of(self, value: str) -> str:
        """Return the period in words."""
        start, end = (moment.astimezone(UTC) for moment in self.period(value))
        return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"

    def period(self, value: str) -> tuple[datetime, datetime]:
        """Return the first moment and the end, which is not in it.

        Raises:
            ParameterRefused: this is no period.
        """
        with suppress(ValueError):
            start, end = map(datetime.fromisoformat, value.split(".."))
            if self._is_period(start, end):
                return start, end
        why = "The value must be START..END, for example 2026-11-23T14:00Z..2026-11-23T15:00Z."
        raise ParameterRefused(self.parameter_name, why)

    @staticmethod
    def _is_period(start: datetime, end: datetime) -> bool:
        has_zones = start.tzinfo is not None and end.tzinfo is not None
        return has_zones and YEARS[0] <= start.year and end.year <= YEARS[1] and start < end

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Return the rows of the period."""
        start, end = self.period(value)
        return rows.filter(**{f"{self.field}__gte": start, f"{self.field}__lt": end})


def field_filter(
    name: str,
    options: Options | Callable[[], Options],
    *,
    field: str = "",
    title: str = "",
    narrow: Callable[[QuerySet[Any], str], QuerySet[Any]] | None = None,
) -> type[ChoiceFilter]:
    """Return a filter class; `name` is its query parameter, and its field and title by default.

    `narrow` returns the rows that match a value, in place of the comparison with the field.
    """
    attributes: dict[str, Any] = {
        "__doc__": f"Only rows of one {title or name}.",
        "title": title or name,
        "parameter_name": name,
        "field": field or name,
        "options": staticmethod(options) if callable(options) else options,
    }
    if narrow is not None:
        attributes["narrow"] = lambda _, rows, value: narrow(rows, value)
    return cast("type[ChoiceFilter]", type(f"{name.title()}Filter", (ChoiceFilter,), attributes))


def flag_filter(name: str, title: str = "") -> type[ChoiceFilter]:
    """Return a filter class for a boolean field."""
    return field_filter(
        name,
        (("yes", "yes"), ("no", "no")),
        title=title,
        narrow=lambda rows, value: rows.filter(**{name: value == "yes"}),
    )
