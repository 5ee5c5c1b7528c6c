"""The same act on many selected rows: a page that lists them, then a report of what came of each."""

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
from django.urls import URLPattern, path, reverse

from tenants.access import Access
from tenants.admin.acts import Act, ActingAdmin, ActRefused, Answers, perform
from tenants.admin.base import access_in, may_somewhere, sees_several_firms

MAX_ROWS = 1000
ROWS_LISTED = 50
ROWS_FETCHED = 500
REFUSALS_TOLD = 3

CHANGED_MEANWHILE = "changed after you opened the page. Look again."

BulkAction = tuple[Callable[..., HttpResponse], str, str]


@dataclass(frozen=True)
class Order:
    """What the page sent: the act, the answers, and what it had shown of each row."""

    act: Act
    answers: Answers
    seen: Mapping[str, str]

    def rests_on(self, row: Any) -> bool:
        """Say whether the row still is as the page showed it."""
        return self.seen.get(str(row.pk)) == self.act.seen(row)


@dataclass
class Report:
    """What came of the rows."""

    done: int = 0
    missing: int = 0
    not_allowed: int = 0
    obstacles: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Say what was not done, and why."""
        for obstacle, count in self.obstacles.most_common():
            yield f"{count:,} left alone: {obstacle}"
        if self.not_allowed:
            yield f"{self.not_allowed:,} left alone: your role in their firm does not allow it."
        if self.missing:
            yield f"{self.missing:,} no longer there."
        if self.refused:
            told = " ".join(self.refused[:REFUSALS_TOLD])
            yield f"{len(self.refused):,} refused: {told}"


class BulkActingAdmin(ActingAdmin):
    """Lists whose selected rows can be acted on together; page, then POST, as for one row."""

    bulk_acts: tuple[Act, ...] = ()
    list_select_related: tuple[str, ...] = ("firm",)

    def get_urls(self) -> list[URLPattern]:
        """Add an address for each act on many."""
        own = [
            path(
                f"bulk/{act.name}/",
                self.admin_site.admin_view(partial(self.bulk_view, act=act)),
                name=self._url_name(f"bulk_{act.name}"),
            )
            for act in self.bulk_acts
        ]
        return [*own, *super().get_urls()]

    def get_actions(self, request: HttpRequest) -> dict[str, BulkAction]:
        """Offer what the user may do in at least one firm."""
        return {
            act.name: (partial(_ask, act=act), act.name, f"{act.label} selected")
            for act in self.bulk_acts
            if may_somewhere(request, act.needed)
        }

    def bulk_view(self, request: HttpRequest, *, act: Act) -> HttpResponse:
        """Act on the rows that the page listed, and report; GET leads back to the list."""
        back = reverse(f"admin:{self._url_name('changelist')}")
        if request.method != "POST":
            return HttpResponseRedirect(back)
        if not may_somewhere(request, act.needed):
            raise PermissionDenied
        ids = _ids(request.POST.get("ids", ""))
        form = act.bulk_form_class(request.POST)
        if not ids or len(ids) > MAX_ROWS:
            messages.error(request, f"Select from 1 to {MAX_ROWS:,} rows; nothing was done.")
            return HttpResponseRedirect(back)
        if not form.is_valid():
            return self.bulk_page(request, act, ids, form, HTTPStatus.BAD_REQUEST)
        order = Order(act, form.cleaned_data, _seen(request.POST.get("seen", "")))
        report = self._act_on_all(request, order, ids)
        if report.missing == len(ids):
            raise Http404("none of these rows is there")
        level = messages.SUCCESS if report.done == len(ids) else messages.WARNING
        summary = f"{report.done:,} of {len(ids):,} {act.done}."
        messages.add_message(request, level, " ".join([summary, *report.lines()]))
        return HttpResponseRedirect(back)

    def bulk_page(
        self,
        request: HttpRequest,
        act: Act,
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
            "title": f"{act.label} {len(chosen):,}",
            "opts": self.model._meta,
            "act": act,
            "action": reverse(f"admin:{self._url_name(f'bulk_{act.name}')}"),
            "text": act.consequence(None),
            "ids": " ".join(map(str, chosen)),
            "seen": json.dumps({str(row.pk): act.seen(row) for row in rows}),
            "count": len(chosen),
            "lines": [(self._line(row), act.obstacle(row)) for row in listed],
            "unlisted": max(0, len(chosen) - ROWS_LISTED),
            "more_match": len(ids) > MAX_ROWS,
            "form": form,
            "back": reverse(f"admin:{self._url_name('changelist')}"),
        }
        return TemplateResponse(request, "admin/bulk_act.html", context, status=status)

    def _line(self, row: Any) -> str:
        firm = f"{row.firm.name}: " if sees_several_firms() else ""
        return f"{firm}{self.subject(row)}"

    def _rows(self, request: HttpRequest, ids: Sequence[UUID]) -> QuerySet[Any]:
        rows: QuerySet[Any] = self.get_queryset(request)
        rows = rows.select_related(*self.list_select_related)
        return rows.filter(pk__in=ids).order_by("pk")

    def _act_on_all(self, request: HttpRequest, order: Order, ids: Sequence[UUID]) -> Report:
        report, access = Report(), access_in(request)
        # In one order whoever asks: two of them with rows in common wait, and do not deadlock.
        ids = sorted(ids)
        for start in range(0, len(ids), ROWS_FETCHED):
            batch = ids[start : start + ROWS_FETCHED]
            rows = list(self._rows(request, batch).select_for_update(of=("self",)))
            report.missing += len(batch) - len(rows)
            for row in rows:
                self._act_on_one(request, access, order, row, report)
        return report

    def _act_on_one(
        self, request: HttpRequest, access: Access, order: Order, row: Any, report: Report
    ) -> None:
        if not order.act.allowed(access, row):
            report.not_allowed += 1
        elif obstacle := order.act.obstacle(row):
            report.obstacles[obstacle] += 1
        elif not order.rests_on(row):
            report.obstacles[CHANGED_MEANWHILE] += 1
        else:
            try:
                perform(order.act, row, order.answers, request)
                report.done += 1
            except ActRefused as refusal:
                report.refused.append(str(refusal))


def _ask(
    admin: BulkActingAdmin, request: HttpRequest, rows: QuerySet[Any], *, act: Act
) -> HttpResponse:
    """Show the page for the selected rows; one more than allowed tells that there are more."""
    ids = list(rows.values_list("pk", flat=True)[: MAX_ROWS + 1])
    return admin.bulk_page(request, act, ids, act.bulk_form_class())


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
