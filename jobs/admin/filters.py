"""The filters of the queue's lists: their choices come from code, never from rows."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from jobs.admin.base import type_choices
from jobs.engine.database_time import database_now
from jobs.queries.filters import OPEN_RESOLUTIONS, JobFilter, with_status
from jobs.states import BreakerState, Category, DeadReason, Resolution, Status
from tenants.admin.filters import (
    SPANS,
    ActiveFilter,
    ChoiceFilter,
    Choices,
    FieldFilter,
    FirmFilter,
    SpanFilter,
)

# The queue's pages and those of mail take their filters from here.
__all__ = [
    "ActiveFilter",
    "BreakerStateFilter",
    "CategoryFilter",
    "ChoiceFilter",
    "Choices",
    "CreatedFilter",
    "DeadCategoryFilter",
    "DeadTypeFilter",
    "FieldFilter",
    "FirmFilter",
    "JobTypeFilter",
    "MovedFilter",
    "ReasonFilter",
    "ResolutionFilter",
    "StatusFilter",
]


def _choices(words: type[Status | Category | DeadReason | BreakerState]) -> Choices:
    return [(word.value, word.value.replace("_", " ")) for word in words]


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


class CategoryFilter(FieldFilter):
    """Jobs of one category."""

    title = "category"
    parameter_name = "category"
    field = "category"

    def offered(self) -> Choices:
        """Offer every category."""
        return _choices(Category)


class JobTypeFilter(FieldFilter):
    """Jobs of one type this code knows."""

    title = "type"
    parameter_name = "type"
    field = "job_type"

    def offered(self) -> Choices:
        """Offer the types this code knows."""
        return type_choices()


class CreatedFilter(SpanFilter):
    """Jobs of the last hours or days."""

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keep what was created within the span."""
        return JobFilter(since=database_now() - SPANS[value]).apply(rows)


class MovedFilter(SpanFilter):
    """Dead letters of the last hours or days."""

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keep what was moved within the span."""
        return rows.filter(moved_at__gte=database_now() - SPANS[value])


class DeadCategoryFilter(CategoryFilter):
    """Dead letters of one category."""

    field = "original_job__category"


class DeadTypeFilter(JobTypeFilter):
    """Dead letters of one type."""

    field = "original_job__job_type"


class ReasonFilter(FieldFilter):
    """Dead letters of one reason."""

    title = "reason"
    parameter_name = "reason"
    field = "reason"

    def offered(self) -> Choices:
        """Offer every reason."""
        return _choices(DeadReason)


class BreakerStateFilter(FieldFilter):
    """Circuit breakers in one state."""

    title = "state"
    parameter_name = "state"
    field = "state"

    def offered(self) -> Choices:
        """Offer every state."""
        return _choices(BreakerState)


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
