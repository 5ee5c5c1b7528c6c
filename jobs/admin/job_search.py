"""The search of the list of jobs in the admin."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.admin.views.main import PAGE_VAR
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from interfaces.admin.base import ParameterRefused, ReadOnlyAdmin
from interfaces.admin.filters import SPANS
from jobs.admin.base import exact, page_time
from jobs.admin.filters import CreatedFilter, OlderFilter
from jobs.errors import SearchInvalid
from jobs.models import JobQueue
from jobs.queries.search import find_jobs
from tenants.admin.base import FirmFilter, access_in
from tenants.models import Firm, Role

SEARCH = "q"
# The filters by which a search has fewer jobs to read.
FILTERS = ("status", "held_back", "user")


class JobSearchAdmin(ReadOnlyAdmin):
    """A list of jobs that takes qualifiers in its search."""

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search, and tell the user how far back the search went if it did not read all jobs.

        Raises:
            ParameterRefused: a qualifier is wrong.
        """
        readable = access_in(request).firms(Role.OPERATOR)
        try:
            found = find_jobs(
                queryset,
                search=search_term,
                readable=readable,
                firms=_firms_of(request),
                applied=_filters_of(request),
            )
        except SearchInvalid as error:
            raise ParameterRefused(SEARCH, _in_words(error)) from error
        if found.window is None or not self._shows_list(request):
            return found.rows, False
        pages = int(request.GET.get(PAGE_VAR, 1))
        wanted = pages * self.list_per_page + 1
        last = found.window.last_read(found.rows, wanted, OlderFilter.last_of(request))
        if last is None:
            return found.rows, False
        messages.info(request, _searched_back_to(request, last))
        return found.rows.filter(pk__gte=last), False

    def _shows_list(self, request: HttpRequest) -> bool:
        """Say whether a page of the list is asked for; bulk operations are for all jobs found."""
        return request.method != "POST" and request.path == self.address("changelist")


def _searched_back_to(request: HttpRequest, last: UUID) -> SafeString:
    """Return how far back the search went, with a link that goes on there."""
    older = request.GET.copy()
    older.pop(PAGE_VAR, None)
    older[OlderFilter.parameter_name] = str(last)
    return format_html(
        'Searched back to {}. <a class="underline" href="?{}">Search older jobs</a>',
        exact(JobQueue.objects.only("created_at").get(pk=last).created_at),
        older.urlencode(),
    )


def _firms_of(request: HttpRequest) -> list[int] | None:
    slug = request.GET.get(FirmFilter.parameter_name, "").strip()
    return list(Firm.objects.filter(slug=slug).values_list("pk", flat=True)) if slug else None


def _filters_of(request: HttpRequest) -> dict[str, Any]:
    """Return the chosen ones of FILTERS, and the time, by the names of `filter_jobs`."""
    given = request.GET
    filters: dict[str, Any] = {
        name: value for name in FILTERS if (value := given.get(name, "").strip())
    }
    if span := given.get(CreatedFilter.parameter_name, "").strip():
        filters["created_after"] = page_time() - SPANS[span][1]
    return filters


def _in_words(error: SearchInvalid) -> str:
    fault = error.faults[0]
    name = fault.field.removeprefix("search").removeprefix(".")
    return f"{name}: {fault.message}." if name else f"{fault.message}."
