"""The filters of the queue's lists: their choices come from code and scope, never from rows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter, TextFilter

from jobs import registry
from jobs.clock import database_now
from jobs.lists import OPEN_RESOLUTIONS, JobFilter, with_status
from jobs.states import Category, DeadReason, Resolution, Status
from tenants.admin.base import sees_several_firms
from tenants.models import Firm
from tenants.scope import require_scope

Choices = list[tuple[str, str]]

_SPANS = {
    "1h": ("Last hour", timedelta(hours=1)),
    "24h": ("Last 24 hours", timedelta(hours=24)),
    "7d": ("Last 7 days", timedelta(days=7)),
    "30d": ("Last 30 days", timedelta(days=30)),
}


def _choices(words: type[Status] | type[Category] | type[DeadReason]) -> Choices:
    return [(word.value, word.value.replace("_", " ")) for word in words]


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


class StatusFilter(ChoiceFilter):
    """Jobs of one status."""

    title = "status"
    parameter_name = "status"

    def offered(self) -> Choices:
        """Offer every status."""
        return _choices(Status)

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keep this status, through an index where there is one."""
        return with_status(rows, Status(value))


class CategoryFilter(ChoiceFilter):
    """Jobs of one category."""

    title = "category"
    parameter_name = "category"
    field = "category"

    def offered(self) -> Choices:
        """Offer every category."""
        return _choices(Category)

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keep this category."""
        return rows.filter(**{self.field: value})


class JobTypeFilter(ChoiceFilter):
    """Jobs of one type this code knows."""

    title = "type"
    parameter_name = "type"
    field = "job_type"

    def offered(self) -> Choices:
        """Offer the registered types: reading them from rows would read history."""
        return [(declared.name, declared.name) for declared in registry.all_types()]

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keep this type."""
        return rows.filter(**{self.field: value})


class CreatedFilter(ChoiceFilter):
    """Jobs of the last hours or days."""

    title = "age"
    parameter_name = "age"

    def offered(self) -> Choices:
        """Offer a few spans."""
        return [(value, text) for value, (text, _) in _SPANS.items()]

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keep what was created within the span."""
        return JobFilter(since=database_now() - _SPANS[value][1]).apply(rows)


class MovedFilter(CreatedFilter):
    """Dead letters of the last hours or days."""

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keep what was moved within the span."""
        return rows.filter(moved_at__gte=database_now() - _SPANS[value][1])


class DeadCategoryFilter(CategoryFilter):
    """Dead letters of one category."""

    field = "original_job__category"


class DeadTypeFilter(JobTypeFilter):
    """Dead letters of one type."""

    field = "original_job__job_type"


class ReasonFilter(ChoiceFilter):
    """Dead letters of one reason."""

    title = "reason"
    parameter_name = "reason"

    def offered(self) -> Choices:
        """Offer every reason."""
        return _choices(DeadReason)

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keep this reason."""
        return rows.filter(reason=value)


class ResolutionFilter(ChoiceFilter):
    """Dead letters by what was decided."""

    title = "decision"
    parameter_name = "decision"

    def offered(self) -> Choices:
        """Offer the open ones first."""
        return [("open", "open"), *((word.value, word.value) for word in Resolution)]

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keep this decision; escalated ones are open too."""
        if value == "open":
            return rows.filter(resolution__in=OPEN_RESOLUTIONS)
        return rows.filter(resolution=value)


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
