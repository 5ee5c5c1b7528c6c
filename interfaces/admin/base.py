"""The base of admin pages: lists that refuse undeclared parameters, and pages to read."""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, ClassVar, cast

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.contrib.admin.views.main import PAGE_VAR, SEARCH_VAR, ChangeList
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.paginator import InfinitePaginator

# The refusal repeats this many characters of an unknown parameter's name.
NAME_SHOWN = 100

_PAGE_NUMBER = re.compile(r"[1-9][0-9]{0,9}")


def column(
    description: str, value: Callable[[Any], Any], **options: Any
) -> Callable[[Any, Any], Any]:
    """Return a list's column, or a page's field, with a row's `value`; `options` are Unfold's."""

    def shown(_: Any, row: Any) -> Any:
        return value(row)

    displayed: Callable[[Any, Any], Any] = display(description=description, **options)(shown)
    return displayed


def clipped(text: str) -> SafeString:
    """Return text cut to a line of a list; the whole text shows on hover."""
    return format_html('<span class="queue-clip" title="{0}">{0}</span>', text)


def name_cell(name: object) -> SafeString:
    """Return a name for a list: a short one stays in one line, a long one takes several."""
    return format_html('<span class="queue-name">{}</span>', name)


def code_block(text: str) -> SafeString:
    """Return text as it was written, in a block that keyboards can reach and scroll.

    Each line runs in the direction of its first letter.
    """
    return format_html('<pre class="queue-code" tabindex="0" dir="auto">{}</pre>', text)


class ParameterRefused(Exception):
    """A list cannot be shown as its address asks; `why` says what is wrong with `parameter`."""

    def __init__(self, parameter: str, why: str) -> None:
        super().__init__(f"{parameter}: {why}")
        self.parameter = parameter
        self.why = why


class StrictListAdmin(ModelAdmin):
    """A list that takes a search, its declared filters and a page number; all else answers 400.

    Django's own lists take any lookup on any column: a lookup on a masked column would reveal it
    one letter at a time. `lookup_allowed()` is not enough to refuse them: Django does not ask it
    about `o`, `all`, `e`, `_facets` and repeated parameters.
    """

    # No sorting by column: without an index it would read the whole table.
    sortable_by: ClassVar[list[str] | tuple[str, ...] | None] = ()
    # Without its form Unfold shows the filters, but nothing applies them.
    list_filter_submit = True
    # No counts beside the filters' options: each would read the table once more.
    show_facets = admin.ShowFacets.NEVER
    # Searches for a whole term in place of Django's search by words; Unfold shows the search box
    # where `search_fields` is not empty.
    search: Callable[[QuerySet[Any], str], QuerySet[Any]] | None = None

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Show the list, or the page that says which parameter is wrong."""
        try:
            return super().changelist_view(request, extra_context)
        except ParameterRefused as refusal:
            return self._refused_page(request, refusal)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Return the list's rows.

        Raises:
            ParameterRefused: a parameter is unknown, repeated or has no valid value.
        """
        self._check_parameters(request)
        try:
            found: Any = super().get_changelist_instance(request)
        except IncorrectLookupParameters as error:
            raise ParameterRefused(PAGE_VAR, "There is no such page.") from error
        for declared in found.filter_specs:
            # Unfold's form keeps what no filter uses, but other filters find other pages.
            declared.used_parameters.setdefault(PAGE_VAR, None)
        # For the template of an empty list.
        found.search_instead = self.search_instead(found.query)
        return cast("ChangeList", found)

    @staticmethod
    def search_instead(text: str) -> str:  # noqa: ARG004 - for the lists that override this
        """Return a search that may find what a search for this text did not; "" for none."""
        return ""

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search; PostgreSQL would fail on the NUL character, which no row can hold."""
        if "\0" in search_term:
            return queryset.none(), False
        if self.search is not None:
            term = search_term.strip()
            return (self.search(queryset, term) if term else queryset), False
        found: tuple[QuerySet[Any], bool] = super().get_search_results(
            request, queryset, search_term
        )
        return found

    def response_action(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Start a bulk action on the selected rows.

        Raises:
            ParameterRefused: a selected value is no row's id.
        """
        for chosen in request.POST.getlist(ACTION_CHECKBOX_NAME):
            try:
                self.opts.pk.clean(chosen, None)
            except ValidationError as error:
                raise ParameterRefused(
                    ACTION_CHECKBOX_NAME, "This is not the id of a row."
                ) from error
        answer: HttpResponse | None = super().response_action(request, queryset)
        return answer

    def _check_parameters(self, request: HttpRequest) -> None:
        known = self._known_parameters(request)
        for name, values in request.GET.lists():
            if name not in known:
                why = f"The list has no such parameter. Known are {', '.join(known)}."
                raise ParameterRefused(name, why)
            if len(values) > 1:
                raise ParameterRefused(name, "The parameter is given more than once.")
            if "\0" in values[0]:
                raise ParameterRefused(
                    name, "The value holds the NUL character, which no row can hold."
                )
            if name == PAGE_VAR and not _PAGE_NUMBER.fullmatch(values[0]):
                raise ParameterRefused(name, "A page must be a whole number from 1.")

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


class ReadOnlyAdmin(StrictListAdmin):
    """Lists and pages to read. Nothing counts the table; a missing row answers 404."""

    show_full_result_count = False
    paginator = InfinitePaginator
    list_per_page = 50
    actions = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False

    has_delete_permission = has_change_permission

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Model:
        """Return the row.

        Raises:
            Http404: there is no such row (Django's admin would redirect to its index).
        """
        found: Model | None = super().get_object(request, object_id, from_field)
        if found is None:
            raise Http404(f"no {self.model._meta.verbose_name} has this id")
        return found

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return what the row's page shows beside its fields."""
        return {}

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **options: Any
    ) -> Any:
        """Show the row's page."""
        context |= self.page_context(request, options["obj"])
        return super().render_change_form(request, context, *args, **options)

    def url_name(self, page: str) -> str:
        """Return the URL name of one of the model's pages, such as "changelist"."""
        return f"{self.opts.app_label}_{self.opts.model_name}_{page}"

    def address(self, page: str, *args: Any) -> str:
        """Return the address of one of the model's pages."""
        return reverse(f"admin:{self.url_name(page)}", args=args)

    def filtered_address(self, request: HttpRequest, page: str, *args: Any) -> str:
        """Return the address of a page, with the list's filters for the way back to it."""
        filters = {"preserved_filters": self.get_preserved_filters(request), "opts": self.opts}
        return str(add_preserved_filters(filters, self.address(page, *args)))
