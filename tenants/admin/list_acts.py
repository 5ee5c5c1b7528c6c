"""What people do from a list, to no row that is there yet: a page that asks, and a POST."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_http_methods

from tenants.access import Access
from tenants.admin.acts import ActingAdmin, ActRefused, Answers, Button, Variant
from tenants.admin.base import access_in, may_somewhere
from tenants.audit import Actor
from tenants.models import Role

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


class ListAct(ABC):
    """One thing that can be done from a list."""

    # The word in the address, the one on the button.
    name: str
    label: str
    icon: str
    text: str
    variant: Variant = "primary"
    needed: Role = Role.OPERATOR

    @abstractmethod
    def form(self, access: Access, data: Mapping[str, Any] | None = None) -> forms.Form:
        """Return what to ask somebody who may do so much, blank or with the answers given."""

    @abstractmethod
    def perform(self, answers: Answers, by: Actor) -> str:
        """Do it, and say what was done.

        Raises:
            ActRefused: it cannot be done, or not with these answers.
        """


class ListActingAdmin(ActingAdmin):
    """Lists with acts of their own, each at an address below the list's."""

    list_acts: tuple[ListAct, ...] = ()
    list_before_template = "admin/partials/buttons.html"

    def get_urls(self) -> list[URLPattern]:
        """Add the acts' pages."""
        own = [
            path(
                f"{act.name}/",
                self.admin_site.admin_view(partial(self.list_act_view, act=act)),
                name=self._url_name(act.name),
            )
            for act in self.list_acts
        ]
        return [*own, *super().get_urls()]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Show the list, with the acts that the user's roles allow."""
        buttons = [
            Button(act.label, reverse(f"admin:{self._url_name(act.name)}"), act.icon, act.variant)
            for act in self.list_acts
            if may_somewhere(request, act.needed)
        ]
        return super().changelist_view(request, {"buttons": buttons, **(extra_context or {})})

    def list_act_view(self, request: HttpRequest, *, act: ListAct) -> HttpResponse:
        """Ask on GET, act on POST."""
        answer: HttpResponse = require_http_methods(["GET", "HEAD", "POST"])(self._list_act)(
            request, act
        )
        return answer

    def _list_act(self, request: HttpRequest, act: ListAct) -> HttpResponse:
        if not may_somewhere(request, act.needed):
            raise PermissionDenied
        back = reverse(f"admin:{self._url_name('changelist')}")
        if request.method != "POST":
            return self._form_page(request, act, act.form(access_in(request)), back)
        form = act.form(access_in(request), request.POST)
        if not form.is_valid():
            return self._form_page(request, act, form, back, HTTPStatus.BAD_REQUEST)
        try:
            with transaction.atomic():
                done = act.perform(
                    form.cleaned_data, Actor("admin", cast("AbstractBaseUser", request.user))
                )
        except ActRefused as refusal:
            form.add_error(refusal.field, refusal.messages)
            return self._form_page(request, act, form, back, refusal.status)
        messages.success(request, done)
        return HttpResponseRedirect(back)

    def _form_page(
        self,
        request: HttpRequest,
        act: ListAct,
        form: forms.Form,
        back: str,
        status: HTTPStatus = HTTPStatus.OK,
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": act.label,
            "opts": self.model._meta,
            "act": act,
            "text": act.text,
            "form": form,
            "back": back,
        }
        return TemplateResponse(request, "admin/act.html", context, status=status)
