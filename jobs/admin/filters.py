"""The filters of the queue's lists."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest

from interfaces.admin.base import ParameterRefused
from interfaces.admin.filters import (
    SPANS,
    LinkFilter,
    Options,
    PeriodFilter,
    SpanFilter,
    TermFilter,
    field_filter,
)
from jobs.admin.base import type_choices
from jobs.engine.clock import database_now
from jobs.errors import FilterInvalid
from jobs.models.base import id_at
from jobs.queries.filters import CLOCK_MARGIN, OPEN, filter_dead_letters, filter_jobs
from jobs.queries.held_back import ANYTHING, HELD_BACK
from jobs.queries.locks import waiting_with_key
from jobs.states import BreakerState, Category, DeadReason, Resolution, Status

LOOK_BACK = timedelta(days=1)


def _words(values: type[Status | Category | DeadReason | BreakerState | Resolution]) -> Options:
    return [(word.value, word.value.replace("_", " ")) for word in values]


CategoryFilter = field_filter("category", _words(Category))
JobTypeFilter = field_filter("type", type_choices, field="job_type")
ReasonFilter = field_filter("reason", _words(DeadReason))
# `filter_jobs` uses an index where one serves a status. Escalated dead letters are open too.
StatusFilter = field_filter(
    "status", _words(Status), narrow=lambda rows, value: filter_jobs(rows, status=value)
)
ResolutionFilter = field_filter(
    "resolution",
    ((OPEN, OPEN), *_words(Resolution)),
    narrow=lambda rows, value: filter_dead_letters(rows, resolution=value),
)
HeldBackFilter = field_filter(
    "held_back",
    ((ANYTHING, ANYTHING), *((code.value, code.words) for code in HELD_BACK)),
    title="held back by",
    narrow=lambda rows, value: filter_jobs(rows, held_back=value),
)
BreakerStateFilter = field_filter("state", _words(BreakerState))


class AgeFilter(SpanFilter):
    """Rows of the last hours or days by the database's clock."""

    def now(self) -> datetime:
        """Return the database's time."""
        return database_now()


class CreatedFilter(AgeFilter):
    """Jobs of the last hours or days."""

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Return the jobs that were created in the span, through an index."""
        return filter_jobs(rows, created_after=self.now() - SPANS[value][1])


class MovedFilter(AgeFilter):
    """Dead letters of the last hours or days."""

    field = "moved_at"


class SettledFilter(PeriodFilter):
    """Jobs that ended in a period; those created over `LOOK_BACK` before it are left out."""

    title = "settled"
    parameter_name = "settled"
    field = "completed_at"

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Return the jobs of the period. No index has their ends, so their ids limit the search."""
        start, end = self.period(value)
        return (
            super()
            .narrow(rows, value)
            .filter(job_id__gte=id_at(start - LOOK_BACK), job_id__lt=id_at(end + CLOCK_MARGIN))
        )


class MovedPeriodFilter(PeriodFilter):
    """Dead letters of a period."""

    title = "moved"
    parameter_name = "moved"
    field = "moved_at"


class UserFilter(TermFilter):
    """Jobs on behalf of one user, by the name they sign in with."""

    title = "on behalf of (user)"
    parameter_name = "user"
    narrow: Callable[..., QuerySet[Any]] = staticmethod(filter_jobs)

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return this user's rows.

        Raises:
            ParameterRefused: no such user is known.
        """
        name = (self.value() or "").strip()
        try:
            return self.narrow(rows, user=name) if name else rows
        except FilterInvalid as error:
            raise ParameterRefused(self.parameter_name, "There is no such user.") from error


class DeadUserFilter(UserFilter):
    """Dead letters of jobs on behalf of one user."""

    narrow = staticmethod(filter_dead_letters)


class LockKeyFilter(LinkFilter):
    """Jobs that wait and have this lock key, as the lock's page links to them."""

    title = "waits for lock"
    parameter_name = "lock"

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Return the jobs that wait with this key."""
        return rows.filter(waiting_with_key(value))


class OlderFilter(LinkFilter):
    """Jobs older than one, as the list links to where a search goes on."""

    title = "older than job"
    parameter_name = "before"

    def text_of(self, value: str) -> str:
        """Return the job's id."""
        return str(self._id(value))

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Return the jobs before this one."""
        return rows.filter(pk__lt=value)

    @classmethod
    def last_of(cls, request: HttpRequest) -> UUID | None:
        """Return the id that the address names.

        Raises:
            ParameterRefused: it is no id.
        """
        value = request.GET.get(cls.parameter_name, "")
        return cls._id(value) if value else None

    @classmethod
    def _id(cls, value: str) -> UUID:
        try:
            return UUID(value)
        except ValueError as error:
            raise ParameterRefused(cls.parameter_name, "This is not the id of a job.") from error
