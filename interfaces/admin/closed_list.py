"""Lists that answer to the parameters they declare; whatever else an address asks is refused."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import PAGE_VAR, SEARCH_VAR, ChangeList
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold.admin import ModelAdmin

# Of a name that somebody else made up, as much is repeated.
NAME_SHOWN = 100

_PAGE_NUMBER = re.compile(r"[1-9][0-9]{0,9}")


class ParameterRefused(Exception):
    """A list cannot be shown as its address asks; `why` says what is wrong with `parameter`."""

    def __init__(self, parameter: str, why: str) -> None:
        super().__init__(f"{parameter}: {why}")
        self.parameter = parameter
        self.why = why


class ClosedList(ModelAdmin):
    """A list that is searched, filtered and leafed through, and asked in no other way.

    Django's own lists take any lookup on any column, which finds what a page masks, one letter
    at a time. Here every other parameter, and every value that a filter does not know, answers 400.
    """

    # Unordered columns: sorting by what no index holds would read the whole table.
    sortable_by: ClassVar[list[str] | tuple[str, ...] | None] = ()
    # A count for each choice of each filter would read it several times.
    show_facets = admin.ShowFacets.NEVER

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Show the list, or say what about its address is wrong."""
        try:
            return super().changelist_view(request, extra_context)
        except ParameterRefused as refusal:
            return self._refused_page(request, refusal)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Return what the list shows.

        Raises:
            ParameterRefused: its address asks something else than it declares.
        """
        self._check_parameters(request)
        try:
            found: ChangeList = super().get_changelist_instance(request)
        except IncorrectLookupParameters as error:
            raise ParameterRefused(PAGE_VAR, "There is no such page.") from error
        return found

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search; what holds the NUL character is in no row, and PostgreSQL fails on it."""
        if "\0" in search_term:
            return queryset.none(), False
        found: tuple[QuerySet[Any], bool] = super().get_search_results(
            request, queryset, search_term
        )
        return found

    def response_action(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Act on the rows that are selected.

        Raises:
            ParameterRefused: what is selected is no row's id.
        """
        for chosen in request.POST.getlist(ACTION_CHECKBOX_NAME):
            try:
                self.opts.pk.clean(chosen, None)
            except ValidationError as error:
                raise ParameterRefused(ACTION_CHECKBOX_NAME, "This is no row's id.") from error
        answer: HttpResponse | None = super().response_action(request, queryset)
        return answer

    def _check_parameters(self, request: HttpRequest) -> None:
        known = self._known_parameters(request)
        for name, values in request.GET.lists():
            if name not in known:
                why = f"The list has no such parameter. It takes {', '.join(known)}."
                raise ParameterRefused(name, why)
            if len(values) > 1:
                raise ParameterRefused(name, "It is given more than once.")
            if "\0" in values[0]:
                raise ParameterRefused(name, "It holds the NUL character, which no row can hold.")
            if name == PAGE_VAR and not _PAGE_NUMBER.fullmatch(values[0]):
                raise ParameterRefused(name, "A page is a whole number from 1.")

    def _known_parameters(self, request: HttpRequest) -> list[str]:
        search = [SEARCH_VAR] if self.get_search_fields(request) else []
        filters = [declared.parameter_name for declared in self.get_list_filter(request)]
        return [*search, *filters, PAGE_VAR]

    def _refused_page(self, request: HttpRequest, refusal: ParameterRefused) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": "This list cannot be shown",
            "opts": self.opts,
            "parameter": refusal.parameter[:NAME_SHOWN],
            "why": refusal.why,
            "back": request.path,
        }
        return TemplateResponse(
            request, "admin/refused_list.html", context, status=HTTPStatus.BAD_REQUEST
        )
