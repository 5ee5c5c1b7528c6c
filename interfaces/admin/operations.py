"""Operations in the admin: a page that asks, and a POST that performs the operation once.

GET shows what would happen and changes nothing. POST locks the row, checks role and state again,
and refuses when the row is no longer as the page showed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar, Literal

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from interfaces.admin.base import ReadOnlyAdmin

MAX_REASON_LENGTH = 2000
CHANGED_MEANWHILE = (
    "This row changed after you opened the page; nothing was done. Check it, then submit again."
)

# Unfold's widgets, which the forms use in place of Django's.
WIDGETS: dict[type[forms.Widget], type[forms.Widget]] = {
    forms.CheckboxInput: UnfoldBooleanSwitchWidget,
    forms.NumberInput: UnfoldAdminIntegerFieldWidget,
    forms.Select: UnfoldAdminSelectWidget,
    forms.Textarea: UnfoldAdminTextareaWidget,
    forms.TextInput: UnfoldAdminTextInputWidget,
}

Answers = Mapping[str, Any]
Variant = Literal["primary", "default", "danger"]


class OperationRefused(Exception):
    """The operation is not possible; `messages` are about one field of the form, or all of it.

    `by_field` maps several fields to their messages; the key None is for the form as a whole.
    """

    def __init__(
        self,
        *messages: str,
        field: str | None = None,
        by_field: Mapping[str | None, list[str]] | None = None,
        status: HTTPStatus = HTTPStatus.CONFLICT,
    ) -> None:
        self.by_field = by_field or {field: list(messages)}
        super().__init__("; ".join(line for lines in self.by_field.values() for line in lines))
        self.status = status


class TextAnswer(forms.CharField):
    """A few lines of text."""

    def __init__(self, **options: Any) -> None:
        widget = forms.Textarea(attrs={"rows": 3})
        super().__init__(max_length=MAX_REASON_LENGTH, widget=widget, **options)


class OperationForm(forms.Form):
    """The form of an operation; without fields it only asks for confirmation."""

    # The fields that begin with the row's values of the same names.
    from_row: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, data: Mapping[str, Any] | None = None, *, request: HttpRequest, row: Any = None
    ) -> None:
        stored = {} if row is None else {name: getattr(row, name) for name in self.from_row}
        super().__init__(data, initial=stored)
        self.prepare(request, row)
        for field in self.fields.values():
            if type(field.widget) in WIDGETS:
                field.widget = _in_unfolds_style(field.widget)

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Set up the fields for the user and the row; `row` is None on a list's page."""


def _in_unfolds_style(plain: forms.Widget) -> forms.Widget:
    widget = WIDGETS[type(plain)](attrs=plain.attrs)
    widget.is_required = plain.is_required
    if isinstance(plain, forms.Select) and isinstance(widget, forms.Select):
        widget.choices = plain.choices
    return widget


class ReasonForm(OperationForm):
    """An operation that needs a reason."""

    reason = TextAnswer(help_text="Kept in the audit log.")


class OptionalReasonForm(OperationForm):
    """An operation that takes a reason."""

    reason = TextAnswer(required=False, help_text="Kept in the audit log.")


def _empty(_: Any) -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation on one row, or on a list; for a list every `row` is None.

    `perform` is called with the row, unless it is None, with the form's cleaned data as keyword
    arguments, and with the actor as `by`. It may raise OperationRefused. The `report` of a list
    operation gets its return value in place of the row.
    """

    # Part of the address, and text of the button.
    name: str
    label: str
    icon: str
    variant: Variant = "default"
    # The lowest role in the row's firm that allows the operation.
    role: str = "operator"
    form: type[OperationForm] = ReasonForm
    # What the operation will do to the row, for the page that asks.
    effect: str | Callable[[Any], str]
    # Why the row's state does not allow the operation; empty if it does.
    obstacle: Callable[[Any], str] = _empty
    # The part of the row's state that the user's decision depends on.
    seen: Callable[[Any], str] = _empty
    perform: Callable[..., Any]
    # The message on the next page that says what was done.
    report: Callable[[Any], str]

    def run(self, row: Any, answers: Answers, by: Any) -> Any:
        """Perform the operation in a transaction, so that a refusal leaves nothing half done.

        Raises:
            OperationRefused: the operation is not possible, or not with these answers.
        """
        target = () if row is None else (row,)
        with transaction.atomic():
            return self.perform(*target, **answers, by=by)


class OperationsAdmin(ReadOnlyAdmin):
    """Pages to read, with an address for each operation below the row's page or the list's."""

    operations: tuple[Operation, ...] = ()
    list_operations: tuple[Operation, ...] = ()
    # Where a finished operation leads: to the row's page, or to the list.
    returns_to_list = False
    change_form_template = "admin/operations_page.html"
    list_before_template = "admin/partials/buttons.html"

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Say whether the user's role allows the operation on this row, or on any."""
        raise NotImplementedError

    def actor(self, request: HttpRequest) -> Any:
        """Return the actor that operations name in the audit log."""
        raise NotImplementedError

    def subject(self, row: Any) -> str:
        """Name the row in a few words, for an operation's page."""
        return str(row)

    def get_urls(self) -> list[URLPattern]:
        """Add the operations' pages."""
        restricted = require_http_methods(["GET", "HEAD", "POST"])
        places = (("", self.list_operations), ("<path:object_id>/", self.operations))
        own = [
            path(
                f"{prefix}{operation.name}/",
                self.admin_site.admin_view(
                    restricted(partial(self.operation_view, operation=operation))
                ),
                name=self.url_name(operation.name),
            )
            for prefix, operations in places
            for operation in operations
        ]
        return [*own, *super().get_urls()]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Show the list with the operations that are possible and that the user's roles allow."""
        buttons = self._buttons(request, self.list_operations)
        return super().changelist_view(request, {"buttons": buttons, **(extra_context or {})})

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Add the operations that the row's state and the user's role allow."""
        buttons = self._buttons(request, self.operations, row)
        return {**super().page_context(request, row), "buttons": buttons}

    def _buttons(
        self, request: HttpRequest, operations: tuple[Operation, ...], row: Any = None
    ) -> list[tuple[Operation, str]]:
        page = () if row is None else (row.pk,)
        return [
            (operation, self.filtered_address(request, operation.name, *page))
            for operation in operations
            if self.may(request, operation, row) and not operation.obstacle(row)
        ]

    def operation_view(
        self, request: HttpRequest, object_id: str | None = None, *, operation: Operation
    ) -> HttpResponse:
        """Ask on GET, perform on POST."""
        row = None if object_id is None else self._get_row(request, object_id)
        if not self.may(request, operation, row):
            raise PermissionDenied
        if operation.obstacle(row):
            return self._page(request, operation, row, None, HTTPStatus.CONFLICT)
        given = request.POST if request.method == "POST" else None
        form = operation.form(given, request=request, row=row)
        if given is None:
            return self._page(request, operation, row, form, HTTPStatus.OK)
        if not form.is_valid():
            return self._page(request, operation, row, form, HTTPStatus.BAD_REQUEST)
        if given.get("seen", "") != operation.seen(row):
            form.add_error(None, CHANGED_MEANWHILE)
            return self._page(request, operation, row, form, HTTPStatus.CONFLICT)
        try:
            made = operation.run(row, form.cleaned_data, self.actor(request))
        except OperationRefused as refusal:
            for field, lines in refusal.by_field.items():
                form.add_error(field if field in form.fields else None, lines)
            return self._page(request, operation, row, form, refusal.status)
        return self.respond(request, operation, row, made)

    def respond(
        self, request: HttpRequest, operation: Operation, row: Any, made: Any
    ) -> HttpResponse:
        """Say what was done, and return to the row's page, or to the list if the row is gone."""
        left = None if row is None else self.model.objects.filter(pk=row.pk).first()
        messages.success(request, operation.report(made if row is None else left or row))
        return HttpResponseRedirect(self._back(request, None if self.returns_to_list else left))

    def _get_row(self, request: HttpRequest, object_id: str) -> Any:
        row: Any = self.get_object(request, object_id)
        if request.method == "POST":
            # A second click waits here for the first, then sees the row that the first has left.
            row = self.lock_row(row)
            if row is None:
                raise Http404(f"this {self.model._meta.verbose_name} no longer exists")
        return row

    def lock_row(self, row: Any) -> Any:
        """Return the row as it is now, locked until the end of the request; None if it is gone."""
        return self.model.objects.select_for_update(no_key=True).filter(pk=row.pk).first()

    def _page(
        self,
        request: HttpRequest,
        operation: Operation,
        row: Any,
        form: forms.Form | None,
        status: HTTPStatus,
    ) -> HttpResponse:
        told = operation.obstacle if form is None else operation.effect
        context = {
            **self.admin_site.each_context(request),
            "title": operation.label,
            "opts": self.model._meta,
            "operation": operation,
            "subject": "" if row is None else self.subject(row),
            "text": told if isinstance(told, str) else told(row),
            "form": form,
            "seen": operation.seen(row),
            "back": self._back(request, row),
        }
        return TemplateResponse(request, "admin/operation.html", context, status=status)

    def _back(self, request: HttpRequest, row: Any) -> str:
        page = ("changelist",) if row is None else ("change", row.pk)
        return self.filtered_address(request, *page)
