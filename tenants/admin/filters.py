"""The bases of the admin's filters: choices come from code and scope, never from rows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter, TextFilter

from tenants.admin.base import sees_several_firms
from tenants.models import Firm
from tenants.scope import require_scope

Choices = list[tuple[str, str]]

SPANS = {
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}


class ChoiceFilter(DropdownFilter):
    """A dropdown; a value it does not offer finds nothing."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        """Return the choices."""
        return self.offered()

    def offered(self) -> Choices:
        """Return value and text of each choice."""
        raise NotImplementedError

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Return the rows that match an offered value."""
        raise NotImplementedError

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Narrow the list to the chosen value."""
        value = self.value()
        if not value:
            return rows
        if value not in dict(self.offered()):
            return rows.none()
        return self.narrow(rows, value)


class SpanFilter(ChoiceFilter):
    """Rows of the last hours or days."""

    title = "age"
    parameter_name = "age"

    def offered(self) -> Choices:
        """Offer a few spans."""
        return [
            ("1h", "Last hour"),
            ("24h", "Last 24 hours"),
            ("7d", "Last 7 days"),
            ("30d", "Last 30 days"),
        ]


class FirmFilter(TextFilter):
    """Rows of one firm, by its slug; offered where there can be several."""

    title = "firm (slug)"
    parameter_name = "firm"

    def has_output(self) -> bool:
        """Hide the filter from members of a single firm."""
        return sees_several_firms()

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Keep the firm's rows; a firm out of sight finds nothing, like one that is not."""
        slug = self.value()
        if not slug:
            return rows
        firm = Firm.objects.filter(slug=slug.strip()).first()
        if firm is None or not require_scope("Firm").allows(firm.pk):
            return rows.none()
        return rows.filter(firm_id=firm.pk)
