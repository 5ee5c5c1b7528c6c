"""The search of the list of jobs in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest

from interfaces.admin.base import ParameterRefused, StrictListAdmin
from jobs.admin.base import exact
from jobs.errors import SearchInvalid
from jobs.models import JobQueue
from jobs.queries.lists import last_read
from jobs.queries.search import find_jobs
from tenants.admin.base import access_in
from tenants.models import Role

SEARCH = "q"


class JobSearchAdmin(StrictListAdmin):
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
            found = find_jobs(queryset, search=search_term, readable=readable)
        except SearchInvalid as error:
            raise ParameterRefused(SEARCH, _in_words(error)) from error
        floor = None if found.window is None else last_read(found.window)
        if floor is None:
            return found.rows, False
        oldest = JobQueue.objects.only("created_at").get(pk=floor).created_at
        messages.info(
            request,
            f"Searched back to {exact(oldest)}. For older jobs add"
            f" created:<{oldest:%Y-%m-%dT%H:%M:%SZ} to the search.",
        )
        return found.rows.filter(pk__gte=floor), False


def _in_words(error: SearchInvalid) -> str:
    fault = error.faults[0]
    name = fault.field.removeprefix("search").removeprefix(".")
    return f"{name}: {fault.message}." if name else f"{fault.message}."
