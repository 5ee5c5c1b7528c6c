"""Bulk operations of the lists: a page that counts by cause and firm, then a run by a durable job.

The rows are those selected by hand, or all that match the list's filters; for all, the address of
the page has the list's parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.admin.utils import model_ngettext
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.text import capfirst
from django.views.decorators.http import require_http_methods

from interfaces.admin.base import ParameterRefused
from jobs.admin.bulk_actions import BulkAction, list_parameters, read_ids, read_moment
from jobs.engine.clock import database_now
from jobs.errors import ArgumentsInvalid, BulkInvalid, JobError, ReasonMissing
from jobs.models import BulkRun
from jobs.operations import bulk
from jobs.operations.bulk import BulkSpec, Pace
from jobs.queries.bulk import Selection, Totals, eligible_rows, totals_of
from tenants.admin.base import TenantOperationsAdmin, access_in, sees_several_firms
from tenants.models import Firm, Role

MAX_IDS = 1000
# The form's field for a fault of a run, where the two have different names.
ANSWERS = {"canary": "canary_size", "canary.size": "canary_size"}
# The page sends this if it was opened for all rows that the list shows.
ALL = "all"
# In the address to which the page for rows selected by hand is sent. Whoever has to sign in again
# is led to that address, but without the selection.
BY_HAND = "by_hand"
SELECT_AGAIN = "Nothing was done: the selected rows are no longer known. Select them again."
NOTHING_LEFT = "The state of these rows does not allow this; nothing was started."


class BulkOperationsAdmin(TenantOperationsAdmin):
    """Lists with bulk operations."""

    bulk_actions: tuple[BulkAction, ...] = ()

    def get_urls(self) -> list[URLPattern]:
        """Add the bulk operations' pages."""
        methods = require_http_methods(["GET", "HEAD", "POST"])
        own = [
            path(
                f"bulk/{action.name}/",
                self.admin_site.admin_view(methods(partial(self.bulk_view, action=action))),
                name=self.url_name(f"bulk_{action.name}"),
            )
            for action in self.bulk_actions
        ]
        return [*own, *super().get_urls()]

    def get_actions(
        self, request: HttpRequest
    ) -> dict[str, tuple[Callable[..., HttpResponse], str, str]]:
        """Offer what the user may do in at least one firm."""
        return {
            action.name: (
                partial(type(self).ask_about, action=action),
                action.name,
                f"{action.label} selected",
            )
            for action in self.bulk_actions
            if access_in(request).firms(Role(action.role)) != []
        }

    def bulk_view(self, request: HttpRequest, *, action: BulkAction) -> HttpResponse:
        """Ask on GET, start a run on POST."""
        if access_in(request).firms(Role(action.role)) == []:
            raise PermissionDenied
        try:
            if request.method != "POST":
                return self._asked_again(request, action)
            return self._start(request, action)
        except ParameterRefused as refusal:
            return self._refused_page(request, refusal)

    def ask_about(
        self, request: HttpRequest, rows: QuerySet[Any], *, action: BulkAction
    ) -> HttpResponse:
        """Show the page for the selected rows; for all that match, at an address of its own."""
        listing = request.META.get("QUERY_STRING", "")
        if request.POST.get("select_across") == "1":
            return HttpResponseRedirect(self._sent_to(action, [], listing))
        return self._bulk_page(request, action, list(rows.values_list("pk", flat=True)), listing)

    def _asked_again(self, request: HttpRequest, action: BulkAction) -> HttpResponse:
        """Show the page for all rows that its address names, but not if some had been selected."""
        asked = request.GET.copy()
        if asked.pop(BY_HAND, None) is None:
            return self._bulk_page(request, action, [], request.META.get("QUERY_STRING", ""))
        messages.warning(request, SELECT_AGAIN)
        return HttpResponseRedirect(self._list_address(asked.urlencode()))

    def _start(self, request: HttpRequest, action: BulkAction) -> HttpResponse:
        ids, listing = read_ids(request.POST.get("ids", "")), request.POST.get("list", "")
        # A request without ids must not mean all rows: for all, the page sends ALL.
        if (request.POST.get("chosen") == ALL) == bool(ids) or len(ids) > MAX_IDS:
            message = f"Select from 1 to {MAX_IDS:,} rows, or all that match; nothing was done."
            messages.error(request, message)
            return HttpResponseRedirect(self._list_address(listing))
        form = action.form(request.POST, request=request)
        if not form.is_valid():
            return self._bulk_page(request, action, ids, listing, form, HTTPStatus.BAD_REQUEST)
        chosen = self._chosen(request, ids, listing)
        if ids and not chosen.exists():
            raise Http404("none of the selected rows exists")
        selection = Selection(
            ids=ids or None,
            filters=list_parameters(listing).dict(),
            rows=chosen,
            seen_at=read_moment(request.POST.get("seen_at", "")),
        )
        owners = self._owners(request, action, chosen)
        # All runs are started or none: after a refusal in one firm the page asks again for all of
        # them. A single run has its own transaction, which is repeated if the database is busy.
        together = transaction.atomic() if len(owners) > 1 else nullcontext()
        try:
            with together:
                runs = self._start_runs(request, action, form, selection, owners)
        except ReasonMissing as error:
            form.add_error(None, str(error))
            return self._bulk_page(request, action, ids, listing, form, HTTPStatus.BAD_REQUEST)
        except ArgumentsInvalid as error:
            _add_faults(form, error)
            return self._bulk_page(request, action, ids, listing, form, HTTPStatus.BAD_REQUEST)
        except JobError as error:
            messages.error(request, f"Nothing was started: {error}.")
            return HttpResponseRedirect(self._list_address(listing))
        return self._started(request, runs, listing)

    def _start_runs(
        self,
        request: HttpRequest,
        action: BulkAction,
        form: forms.Form,
        selection: Selection,
        owners: Sequence[Firm | None],
    ) -> list[BulkRun]:
        """Start the run of each firm.

        Raises:
            JobError: as `bulk.start`; a fault of one firm among several names it.
        """
        runs: list[BulkRun] = []
        for firm in owners:
            spec = self._spec(action, form, selection, firm)
            try:
                if bulk.preview(spec).count:
                    runs.append(bulk.start(spec, by=self.actor(request)))
            except BulkInvalid as error:
                if firm is None or len(owners) == 1:
                    raise
                faults = [replace(one, message=f"{firm}: {one.message}") for one in error.faults]
                raise BulkInvalid(faults) from error
        return runs

    def _started(self, request: HttpRequest, runs: Sequence[BulkRun], listing: str) -> HttpResponse:
        if not runs:
            messages.error(request, NOTHING_LEFT)
            return HttpResponseRedirect(self._list_address(listing))
        total = sum(run.total for run in runs)
        messages.success(request, f"Started for {total:,} {model_ngettext(self.opts, total)}.")
        if len(runs) > 1:
            return HttpResponseRedirect(reverse("admin:jobs_bulkrun_changelist"))
        back = urlencode({"back": self._list_address(listing)})
        address = reverse("admin:jobs_bulkrun_change", args=[runs[0].pk])
        return HttpResponseRedirect(f"{address}?{back}")

    def _bulk_page(
        self,
        request: HttpRequest,
        action: BulkAction,
        ids: Sequence[UUID],
        listing: str,
        form: forms.Form | None = None,
        status: HTTPStatus = HTTPStatus.OK,
    ) -> HttpResponse:
        """Show the rows that the operation would change, by cause and firm, and the form."""
        chosen = self._chosen(request, ids, listing)
        totals = self._totals(request, action, chosen)
        context = {
            **self.admin_site.each_context(request),
            "title": f"{action.label} {totals.count:,}",
            "opts": self.opts,
            "operation": action,
            "action": self._sent_to(action, ids, listing),
            "totals": totals,
            "left_alone": max(0, len(ids) - totals.count),
            "ids": " ".join(map(str, ids)),
            "chosen": "" if ids else ALL,
            "list": listing,
            "seen_at": database_now().isoformat(),
            "shows_firms": sees_several_firms(),
            "form": form or action.form(request=request),
            "back": self._list_address(listing),
        }
        return TemplateResponse(request, "admin/bulk_operation.html", context, status=status)

    def _totals(self, request: HttpRequest, action: BulkAction, chosen: QuerySet[Any]) -> Totals:
        rows = eligible_rows(action.operation, Selection(rows=chosen))
        allowed = access_in(request).firms(Role(action.role))
        if allowed is not None:
            rows = rows.filter(firm_id__in=allowed)
        return totals_of(action.operation, rows)

    def _chosen(self, request: HttpRequest, ids: Sequence[UUID], listing: str) -> QuerySet[Any]:
        """Return the rows in scope with these ids, or without ids all that the list shows.

        Raises:
            ParameterRefused: the list does not take these parameters.
        """
        if ids:
            mine: QuerySet[Any] = self.get_queryset(request).filter(pk__in=ids)
            return mine
        asked = copy(request)
        asked.GET = list_parameters(listing)  # type: ignore[assignment]  # it is not changed any more
        rows: QuerySet[Any] = self.get_changelist_instance(asked).queryset
        return rows

    def _owners(
        self, request: HttpRequest, action: BulkAction, chosen: QuerySet[Any]
    ) -> list[Firm | None]:
        """Return for which firms a run is started; None stands for one run on every firm."""
        access = access_in(request)
        owners = set(chosen.order_by().values_list("firm_id", flat=True).distinct())
        firms = Firm.objects.filter(pk__in=owners).order_by("pk")
        if access.is_platform_staff and (len(owners) > 1 or len(firms) < len(owners)):
            return [None]
        return [firm for firm in firms if access.may(Role(action.role), firm.pk)]

    def _spec(
        self, action: BulkAction, form: forms.Form, selection: Selection, firm: Firm | None
    ) -> BulkSpec:
        answers = form.cleaned_data
        return BulkSpec(
            operation=action.operation,
            selection=selection,
            firm=firm,
            reason=answers["reason"],
            priority=answers.get("priority"),
            pace=Pace(
                rate_per_second=answers.get("rate_per_second"),
                canary_size=answers.get("canary_size") or 0,
            ),
        )

    def _sent_to(self, action: BulkAction, ids: Sequence[UUID], listing: str) -> str:
        """Return the address that the page is sent to, with the list's parameters."""
        query = "&".join(filter(None, [f"{BY_HAND}=1" if ids else "", listing]))
        return self.address(f"bulk_{action.name}") + (f"?{query}" if query else "")

    def _list_address(self, listing: str) -> str:
        return self.address("changelist") + (f"?{listing}" if listing else "")


def _add_faults(form: forms.Form, error: ArgumentsInvalid) -> None:
    for fault in error.faults:
        answer = ANSWERS.get(fault.field, fault.field)
        if answer in form.fields:
            form.add_error(answer, f"{capfirst(fault.message)}.")
        else:
            form.add_error(None, str(fault))
