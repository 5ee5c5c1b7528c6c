"""Saved views: a list's filters under a name, as links above it, for oneself or for the firm."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from http import HTTPStatus
from typing import Any, NamedTuple, cast
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.contrib.admin.views.main import PAGE_VAR
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.text import capfirst
from django.views.decorators.http import require_http_methods

from interfaces.admin.base import ParameterRefused
from interfaces.admin.operations import OperationForm
from jobs.admin.filters import OlderFilter
from jobs.errors import FilterInvalid, UnknownJob
from jobs.models import SavedView
from jobs.models.saved_view import MAX_VIEW_NAME_LENGTH
from jobs.operations.saved_views import delete_view, save_view
from jobs.queries.lists import views_of
from jobs.states import Listing
from tenants.admin.base import FirmFilter, TenantAdmin, access_in
from tenants.models import Firm, Role

FIRM = FirmFilter.parameter_name
# Where in the list the user is.
PLACE = (PAGE_VAR, OlderFilter.parameter_name)
MAX_LENGTH = 1000


class SavedViewForm(OperationForm):
    """The name of a view, and whether others see it."""

    name = forms.CharField(
        max_length=MAX_VIEW_NAME_LENGTH,
        help_text="If you have a view with this name, it is replaced.",
    )
    shared = forms.BooleanField(
        required=False, label="Shared", help_text="The firm's other members see the view too."
    )


class Button(NamedTuple):
    """What the form's button shows."""

    label: str
    icon: str
    variant: str


SAVE = Button("Save view", "bookmark_add", "primary")


class SavedViewsAdmin(TenantAdmin):
    """A list whose filters can be saved under a name."""

    listing: Listing
    list_before_template = "admin/jobs/partials/saved_views.html"

    def get_urls(self) -> list[URLPattern]:
        """Add the page that saves and deletes views."""
        methods = require_http_methods(["GET", "HEAD", "POST"])
        page = self.admin_site.admin_view(methods(self.views_page))
        return [path("views/", page, name=self.url_name("views")), *super().get_urls()]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Show the list with links to the views."""
        here = _parameters(request.META.get("QUERY_STRING", ""))
        address = self.address("views")
        context = {
            "saved_views": [
                (view, self._link(view), view.parameters == here)
                for view in views_of(_user(request), self.listing)
            ],
            "views_address": f"{address}?{urlencode(here)}" if here else address,
            "can_save_view": bool(here),
        }
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def views_page(self, request: HttpRequest) -> HttpResponse:
        """Show the views on GET; on POST save the filters of the list, or delete a view.

        Raises:
            Http404: the user may delete no such view.
        """
        if request.method != "POST":
            return self._views_page(request, request.META.get("QUERY_STRING", ""))
        if "delete" in request.POST:
            return self._delete(request)
        return self._save(request, request.POST.get("list", ""))

    def _save(self, request: HttpRequest, listing: str) -> HttpResponse:
        form = SavedViewForm(request.POST, request=request)
        if not form.is_valid():
            return self._views_page(request, listing, form)
        try:
            parameters = self._checked(request, listing)
            firm, obstacle = _owner(request, parameters)
            if form.cleaned_data["shared"] and obstacle:
                form.add_error("shared", obstacle)
                return self._views_page(request, listing, form)
            save_view(
                parameters=parameters,
                listing=self.listing,
                firm=firm,
                user=_user(request),
                **form.cleaned_data,
            )
        except ParameterRefused as refusal:
            return self._refused_page(request, refusal)
        except FilterInvalid as error:
            for fault in error.faults:
                form.add_error("name", f"{capfirst(fault.message)}.")
            return self._views_page(request, listing, form)
        messages.success(request, "The view is saved.")
        return HttpResponseRedirect(f"{self.address('changelist')}?{urlencode(parameters)}")

    def _delete(self, request: HttpRequest) -> HttpResponse:
        wanted = request.POST["delete"]
        views = {str(view.pk): view for view in views_of(_user(request), self.listing)}
        if wanted not in views or not _may_delete(request, views[wanted]):
            raise Http404("this view does not exist")
        try:
            delete_view(wanted)
        except UnknownJob as error:
            raise Http404("this view no longer exists") from error
        messages.success(request, "The view is deleted.")
        return HttpResponseRedirect(self.address("views"))

    def _views_page(
        self, request: HttpRequest, listing: str, form: SavedViewForm | None = None
    ) -> HttpResponse:
        try:
            parameters = self._checked(request, listing)
        except ParameterRefused as refusal:
            return self._refused_page(request, refusal)
        query = urlencode(parameters)
        context = {
            **self.admin_site.each_context(request),
            "title": "Saved views",
            "opts": self.opts,
            "views": [
                (view, self._link(view), _in_words(view.parameters), _may_delete(request, view))
                for view in views_of(_user(request), self.listing)
            ],
            "user_id": request.user.pk,
            "filters": _in_words(parameters),
            "list": query,
            "form": form or SavedViewForm(request=request),
            "operation": SAVE,
            "back": self.address("changelist") + (f"?{query}" if query else ""),
        }
        status = HTTPStatus.BAD_REQUEST if form else HTTPStatus.OK
        return TemplateResponse(request, "admin/jobs/saved_views.html", context, status=status)

    def _checked(self, request: HttpRequest, listing: str) -> dict[str, str]:
        """Return the list's parameters, after the list has accepted them."""
        if len(listing) > MAX_LENGTH:
            raise ParameterRefused("list", f"A view has at most {MAX_LENGTH:,} characters.")
        asked = copy(request)
        asked.GET = QueryDict(listing)
        if listing:
            self.get_changelist_instance(asked)
        return _parameters(listing)

    def _link(self, view: SavedView) -> str:
        return f"{self.address('changelist')}?{urlencode(view.parameters)}"


def _user(request: HttpRequest) -> AbstractBaseUser:
    return cast("AbstractBaseUser", request.user)


def _parameters(listing: str) -> dict[str, str]:
    """Return the parameters that narrow the list: without its place, and without empty ones."""
    given = QueryDict(listing).items()
    return {name: str(value) for name, value in given if value and name not in PLACE}


def _in_words(parameters: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in parameters.items())


def _owner(request: HttpRequest, parameters: Mapping[str, str]) -> tuple[Firm, str]:
    """Return the firm that a view belongs to, and why the user cannot share it there.

    It is the firm that the list is filtered by, so that other firms' members do not learn of it.
    """
    access = access_in(request)
    slug = parameters.get(FIRM, "").strip()
    if slug:
        firm = Firm.objects.get_by_slug(slug)
    elif access.is_platform_staff:
        return Firm.objects.system(), ""
    else:
        firms = Firm.objects.filter(pk__in=access.firms(Role.VIEWER) or []).order_by("pk")
        if not firms:
            # All of the user's firms are inactive, so no firm could own the view.
            raise PermissionDenied
        firm = firms[0]
        if len(firms) > 1:
            return firm, "To share the view, filter the list by the firm to share it with."
    return firm, "" if access.may(Role.OPERATOR, firm.pk) else "Only operators can share views."


def _may_delete(request: HttpRequest, view: SavedView) -> bool:
    return view.user_id == request.user.pk or access_in(request).may(Role.ADMIN, view.firm_id)
