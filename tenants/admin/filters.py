"""The filters of firms' rows."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from interfaces.admin.base import ParameterRefused
from interfaces.admin.filters import TermFilter, field_filter, flag_filter
from tenants.admin.base import sees_several_firms
from tenants.models import Firm, Role
from tenants.scope import require_scope

ActiveFilter = flag_filter("active")
RoleFilter = field_filter("role", Role.choices)


class FirmFilter(TermFilter):
    """Rows of one firm, by its slug; shown to users who see several firms."""

    title = "firm (slug)"
    parameter_name = "firm"

    def __init__(self, request: HttpRequest, *args: Any) -> None:
        super().__init__(request, *args)
        # Members of a single firm do not see the filter, and get the same refusals.
        slug = self.value()
        self._firm = Firm.objects.filter(slug=slug.strip()).first() if slug else None
        if slug and (self._firm is None or not require_scope("Firm").allows(self._firm.pk)):
            raise ParameterRefused(self.parameter_name, "You see no firm with this slug.")

    def has_output(self) -> bool:
        """Hide the filter from members of a single firm."""
        return sees_several_firms()

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the firm's rows."""
        return rows if self._firm is None else rows.filter(firm_id=self._firm.pk)
