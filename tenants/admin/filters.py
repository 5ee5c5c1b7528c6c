"""The bases of the admin's filters: choices come from code and scope, never from rows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.admin import SimpleListFilter
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter, TextFilter

from interfaces.admin.closed_list import ParameterRefused
from tenants.admin.base import sees_several_firms
from tenants.models import Firm, Role
from tenants.scope import require_scope

Choices = list[tuple[str, str]]

SPANS = {
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}


class _Checked(SimpleListFilter):
    """A filter that looks at its value before it narrows anything."""

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
        """Look at the value.

        Raises:
            ParameterRefused: the filter does not know it.
        """
        raise NotImplementedError


class ChoiceFilter(_Checked, DropdownFilter):
    """A dropdown; a value it does not offer is refused."""

    def check(self) -> None:
        """Refuse what is not offered."""
        offered = [value for value, _ in self.offered()]
        if self.value() and self.value() not in offered:
            raise ParameterRefused(self.parameter_name, f"It is one of {', '.join(offered)}.")

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
        return self.narrow(rows, value) if value else rows


class FieldFilter(ChoiceFilter):
    """Rows whose field has the chosen value."""

    field = ""

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keep the rows with this value."""
        return rows.filter(**{self.field: value})


class FlagFilter(ChoiceFilter):
    """Rows whose flag is up, or those whose flag is down."""

    def offered(self) -> Choices:
        """Offer both."""
        return [("yes", "yes"), ("no", "no")]

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keep the rows with the flag as chosen."""
        return rows.filter(**{self.parameter_name: value == "yes"})


class ActiveFilter(FlagFilter):
    """What is active, or what is not."""

    title = "active"
    parameter_name = "active"


class RoleFilter(FieldFilter):
    """Rows of one role."""

    title = "role"
    parameter_name = "role"
    field = "role"

    def offered(self) -> Choices:
        """Offer every role."""
        return [(role.value, role.label) for role in Role]


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


class FirmFilter(_Checked, TextFilter):
    """Rows of one firm, by its slug; offered where there can be several."""

    title = "firm (slug)"
    parameter_name = "firm"

    def check(self) -> None:
        """Refuse a firm out of sight like one that is not there."""
        slug = self.value()
        self._firm = Firm.objects.filter(slug=slug.strip()).first() if slug else None
        if slug and (self._firm is None or not require_scope("Firm").allows(self._firm.pk)):
            raise ParameterRefused(self.parameter_name, "No firm that you see has this slug.")

    def has_output(self) -> bool:
        """Hide the filter from members of a single firm."""
        return sees_several_firms()

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Keep the firm's rows."""
        return rows if self._firm is None else rows.filter(firm_id=self._firm.pk)
