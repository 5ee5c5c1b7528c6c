"""What people do to one row: a page that asks, and a POST that does it once.

GET shows what would happen and changes nothing. POST locks the row, checks role and state again,
and refuses when the row is no longer what the page showed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, cast

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_http_methods
from unfold.widgets import UnfoldAdminTextareaWidget

from tenants.access import Access
from tenants.admin.base import ReadOnlyAdmin, access_in
from tenants.audit import Actor
from tenants.models import Role

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

MAX_REASON_LENGTH = 2000
CHANGED_MEANWHILE = (
    "This changed after you opened the page; nothing was done. Look again, then send it once more."
)

Answers = Mapping[str, Any]
Variant = Literal["primary", "default", "danger"]


class ActRefused(Exception):
    """The act cannot be done; `messages` say why, about one field of the form or about it all."""

    def __init__(
        self,
        *messages: str,
        field: str | None = None,
        status: HTTPStatus = HTTPStatus.CONFLICT,
    ) -> None:
        super().__init__("; ".join(messages))
        self.messages = list(messages)
        self.field = field
        self.status = status


class TextAnswer(forms.CharField):
    """A few lines of text; `help_text` says what becomes of them."""

    def __init__(self, **options: Any) -> None:
        widget = UnfoldAdminTextareaWidget(attrs={"rows": 3})
        super().__init__(max_length=MAX_REASON_LENGTH, widget=widget, **options)


class ReasonForm(forms.Form):
    """An act that must say why."""

    reason = TextAnswer(help_text="Kept in the audit log.")


class OptionalReasonForm(forms.Form):
    """An act that may say why."""

    reason = TextAnswer(required=False, help_text="Kept in the audit log.")


class Act(ABC):
    """One thing that can be done to a row of one kind."""

    # The word in the address, the one on the button, the one in reports ("12 retried").
    name: str
    label: str
    done: str
    icon: str
    variant: Variant = "default"
    needed: Role = Role.OPERATOR
    form_class: type[forms.Form] = ReasonForm
    bulk_form_class: type[forms.Form] = ReasonForm

    @abstractmethod
    def consequence(self, row: Any | None) -> str:
        """Say what it will do to this row, or to each of several."""

    @abstractmethod
    def perform(self, row: Any, answers: Answers, by: Actor) -> None:
        """Do it.

        Raises:
            ActRefused: it cannot be done, or not with these answers.
        """

    @abstractmethod
    def told(self, row: Any) -> str:
        """Say what was done."""

    @abstractmethod
    def seen(self, row: Any) -> str:
        """Return the part of the row's state that the person's decision rests on."""

    def allowed(self, access: Access, row: Any) -> bool:
        """Say whether somebody who may do so much may do this to the row."""
        return access.may(self.needed, row.firm_id)

    def obstacle(self, row: Any) -> str:
        """Return why the row's state does not allow it; nothing when it does."""
        return ""

    def form(self, row: Any, data: Mapping[str, Any] | None = None) -> forms.Form:
        """Return what to ask, blank or with the answers given."""
        return self.form_class(data)


@dataclass(frozen=True)
class Button:
    """Leads to an act's page."""

    label: str
    href: str
    icon: str
    variant: Variant


class ActingAdmin(ReadOnlyAdmin):
    """Pages to read, with acts: an address below the row's page for each."""

    acts: tuple[Act, ...] = ()
    change_form_template = "admin/acting_page.html"

    def get_urls(self) -> list[URLPattern]:
        """Add the acts' pages."""
        own = [
            path(
                f"<path:object_id>/{act.name}/",
                self.admin_site.admin_view(partial(self.act_view, act=act)),
                name=self._url_name(act.name),
            )
            for act in self.acts
        ]
        return [*own, *super().get_urls()]

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any = None,
    ) -> Any:
        """Show the row's page, with the acts that its state and the user's role allow."""
        context = {**context, "buttons": self.buttons(request, obj)}
        return super().render_change_form(request, context, add, change, form_url, obj)

    def buttons(self, request: HttpRequest, row: Any) -> list[Button]:
        """Return what this user can do to the row now."""
        access = access_in(request)
        return [
            Button(
                act.label,
                reverse(f"admin:{self._url_name(act.name)}", args=[row.pk]),
                act.icon,
                act.variant,
            )
            for act in self.acts
            if act.allowed(access, row) and not act.obstacle(row)
        ]

    def subject(self, row: Any) -> str:
        """Name the row in a few words, for the page that asks."""
        return str(row)

    def after_act(self, row: Any) -> str:
        """Return where to go when an act is done."""
        return reverse(f"admin:{self._url_name('change')}", args=[row.pk])

    def act_view(self, request: HttpRequest, object_id: str, *, act: Act) -> HttpResponse:
        """Ask on GET, act on POST."""
        answer: HttpResponse = require_http_methods(["GET", "HEAD", "POST"])(self._act)(
            request, object_id, act
        )
        return answer

    def _act(self, request: HttpRequest, object_id: str, act: Act) -> HttpResponse:
        row: Any = self.get_object(request, object_id)
        if request.method == "POST":
            # A second click waits here for the first, and then sees what it did.
            row = self.model.objects.select_for_update().filter(pk=row.pk).first()
            if row is None:
                raise Http404(f"this {self.model._meta.verbose_name} is gone")
        if not act.allowed(access_in(request), row):
            raise PermissionDenied
        if act.obstacle(row):
            return self._page(request, act, row, None, HTTPStatus.CONFLICT)
        if request.method != "POST":
            return self._page(request, act, row, act.form(row), HTTPStatus.OK)
        form = act.form(row, request.POST)
        status = self._perform(request, act, row, form)
        if status != HTTPStatus.OK:
            return self._page(request, act, row, form, status)
        messages.success(request, act.told(self.model.objects.filter(pk=row.pk).first() or row))
        return HttpResponseRedirect(self.after_act(row))

    def _perform(self, request: HttpRequest, act: Act, row: Any, form: forms.Form) -> HTTPStatus:
        """Act, and return OK; else note in the form what was wrong."""
        if not form.is_valid():
            return HTTPStatus.BAD_REQUEST
        if request.POST.get("seen", "") != act.seen(row):
            form.add_error(None, CHANGED_MEANWHILE)
            return HTTPStatus.CONFLICT
        try:
            perform(act, row, form.cleaned_data, request)
        except ActRefused as refusal:
            form.add_error(refusal.field, refusal.messages)
            return refusal.status
        return HTTPStatus.OK

    def _page(
        self, request: HttpRequest, act: Act, row: Any, form: forms.Form | None, status: HTTPStatus
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": act.label,
            "opts": self.model._meta,
            "act": act,
            "subject": self.subject(row),
            "text": act.consequence(row) if form is not None else act.obstacle(row),
            "form": form,
            "seen": act.seen(row),
            "back": reverse(f"admin:{self._url_name('change')}", args=[row.pk]),
        }
        return TemplateResponse(request, "admin/act.html", context, status=status)

    def _url_name(self, word: str) -> str:
        return f"{self.model._meta.app_label}_{self.model._meta.model_name}_{word}"


def perform(act: Act, row: Any, answers: Answers, request: HttpRequest) -> None:
    """Do it in the name of the request's user; a refusal leaves nothing half done.

    Raises:
        ActRefused: it cannot be done, or not with these answers.
    """
    with transaction.atomic():
        act.perform(row, answers, Actor("admin", cast("AbstractBaseUser", request.user)))
