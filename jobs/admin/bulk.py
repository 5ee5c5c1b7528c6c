"""The same operation on many selected rows: a page that lists them, then a report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from interfaces.admin.operations import Answers, Operation, OperationRefused
from tenants.admin.base import TenantOperationsAdmin, sees_several_firms

MAX_ROWS = 1000
ROWS_LISTED = 50
ROWS_FETCHED = 500
REFUSALS_SHOWN = 3

CHANGED_MEANWHILE = "changed after you opened the page. Look again."
NOT_ALLOWED = "your role in their firm does not allow it."


@dataclass
class Report:
    """How many rows were done, and why the others were not."""

    done: int = 0
    missing: int = 0
    left_alone: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Say how many rows were not done, and why."""
        for why, count in self.left_alone.most_common():
            yield f"{count:,} left alone: {why}"
        if self.missing:
            yield f"{self.missing:,} no longer there."
        if self.refused:
            yield f"{len(self.refused):,} refused: {' '.join(self.refused[:REFUSALS_SHOWN])}"


class BulkOperationsAdmin(TenantOperationsAdmin):
    """Lists with operations on the selected rows: a page that asks, then a POST, as for one row."""

    bulk_operations: tuple[Operation, ...] = ()
    list_select_related: tuple[str, ...] = ("firm",)

    def get_urls(self) -> list[URLPattern]:
        """Add the bulk operations' pages."""
        own = [
            path(
                f"bulk/{operation.name}/",
                self.admin_site.admin_view(partial(self.bulk_view, operation=operation)),
                name=self.url_name(f"bulk_{operation.name}"),
            )
            for operation in self.bulk_operations
        ]
        return [*own, *super().get_urls()]

    def get_actions(
        self, request: HttpRequest
    ) -> dict[str, tuple[Callable[..., HttpResponse], str, str]]:
        """Offer what the user may do in at least one firm."""
        return {
            operation.name: (
                partial(_ask, operation=operation),
                operation.name,
                f"{operation.label} selected",
            )
            for operation in self.bulk_operations
            if self.may(request, operation)
        }

    def bulk_view(self, request: HttpRequest, *, operation: Operation) -> HttpResponse:
        """Perform the operation on the rows that the page listed; GET leads back to the list."""
        back = self.address("changelist")
        if request.method != "POST":
            return HttpResponseRedirect(back)
        if not self.may(request, operation):
            raise PermissionDenied
        ids = _ids(request.POST.get("ids", ""))
        form = operation.bulk_form(request.POST, request=request)
        if not ids or len(ids) > MAX_ROWS:
            messages.error(request, f"Select from 1 to {MAX_ROWS:,} rows; nothing was done.")
            return HttpResponseRedirect(back)
        if not form.is_valid():
            return self.bulk_page(request, operation, ids, form, HTTPStatus.BAD_REQUEST)
        seen = _seen(request.POST.get("seen", ""))
        report = self._run_on_all(request, operation, ids, form.cleaned_data, seen)
        if report.missing == len(ids):
            raise Http404("none of these rows is there")
        level = messages.SUCCESS if report.done == len(ids) else messages.WARNING
        summary = f"{report.done:,} of {len(ids):,} {operation.done}."
        messages.add_message(request, level, " ".join([summary, *report.lines()]))
        return HttpResponseRedirect(back)

    def bulk_page(
        self,
        request: HttpRequest,
        operation: Operation,
        ids: Sequence[UUID],
        form: forms.Form,
        status: HTTPStatus = HTTPStatus.OK,
    ) -> HttpResponse:
        """Show how many rows there are, the first of them, and what to answer."""
        chosen = list(ids[:MAX_ROWS])
        rows = list(self._rows(request, chosen))
        listed = rows[:ROWS_LISTED]
        context = {
            **self.admin_site.each_context(request),
            "title": f"{operation.label} {len(chosen):,}",
            "opts": self.model._meta,
            "operation": operation,
            "action": self.address(f"bulk_{operation.name}"),
            "text": operation.bulk_effect or operation.effect,
            "ids": " ".join(map(str, chosen)),
            "seen": json.dumps({str(row.pk): operation.seen(row) for row in rows}),
            "count": len(chosen),
            "lines": [(row.firm, self.subject(row), operation.obstacle(row)) for row in listed],
            "shows_firms": sees_several_firms(),
            "unlisted": max(0, len(chosen) - ROWS_LISTED),
            "more_match": len(ids) > MAX_ROWS,
            "form": form,
            "back": self.address("changelist"),
        }
        return TemplateResponse(request, "admin/bulk_operation.html", context, status=status)

    def _rows(self, request: HttpRequest, ids: Sequence[UUID]) -> QuerySet[Any]:
        rows: QuerySet[Any] = self.get_queryset(request).filter(pk__in=ids)
        return rows.select_related(*self.list_select_related).order_by("pk")

    def _run_on_all(
        self,
        request: HttpRequest,
        operation: Operation,
        ids: Sequence[UUID],
        answers: Answers,
        seen: Mapping[str, str],
    ) -> Report:
        report, actor = Report(missing=len(ids)), self.actor(request)
        for row in self._locked_rows(request, ids):
            report.missing -= 1
            if not self.may(request, operation, row):
                report.left_alone[NOT_ALLOWED] += 1
            elif obstacle := operation.obstacle(row):
                report.left_alone[obstacle] += 1
            elif seen.get(str(row.pk)) != operation.seen(row):
                report.left_alone[CHANGED_MEANWHILE] += 1
            else:
                try:
                    operation.run(row, answers, actor)
                    report.done += 1
                except OperationRefused as refusal:
                    report.refused.append(str(refusal))
        return report

    def _locked_rows(self, request: HttpRequest, ids: Sequence[UUID]) -> Iterator[Any]:
        # Everybody locks in the order of the ids: two requests with rows in common do not deadlock.
        ids = sorted(ids)
        for start in range(0, len(ids), ROWS_FETCHED):
            batch = ids[start : start + ROWS_FETCHED]
            yield from list(self._rows(request, batch).select_for_update(of=("self",)))


def _ask(
    admin: BulkOperationsAdmin, request: HttpRequest, rows: QuerySet[Any], *, operation: Operation
) -> HttpResponse:
    """Show the page for the selected rows; one more than allowed tells that there are more."""
    ids = list(rows.values_list("pk", flat=True)[: MAX_ROWS + 1])
    return admin.bulk_page(request, operation, ids, operation.bulk_form(request=request))


def _ids(text: str) -> list[UUID]:
    """Return the ids in a space-separated list, each once; what is no id is left out."""
    found: dict[UUID, None] = {}
    for word in text.split():
        try:
            found[UUID(word)] = None
        except ValueError:
            continue
    return list(found)


def _seen(text: str) -> dict[str, str]:
    """Return what the page showed of each row, by id; of none when that cannot be read."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
