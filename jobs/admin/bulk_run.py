"""Bulk runs in the admin: progress, and stop."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import URLPattern, path, reverse
from django.utils.http import url_has_allowed_host_and_scheme

from interfaces.admin.base import column, name_cell
from interfaces.admin.operations import OptionalReasonForm
from jobs.admin.base import (
    LABELS,
    Fact,
    QueueOperation,
    age_column,
    exact,
    firm_name,
    job_url,
    list_url,
)
from jobs.engine.clock import database_now
from jobs.models import BulkRun
from jobs.operations import bulk
from jobs.queries.bulk import (
    canary_in_words,
    details_of_run,
    is_on_every_firm,
    selection_in_words,
    why_canary_waits,
    why_run_waits,
    with_reach,
)
from jobs.queries.durations import in_words
from jobs.queries.why_waiting import WaitReason
from jobs.states import OF_DEAD_LETTERS, RETRYABLE, BulkState, Priority
from tenants.admin.base import FirmFilter, TenantOperationsAdmin, access_in
from tenants.models import Role

EVERY_FIRM = "Every firm"
SHORT_PAUSE = timedelta(minutes=1)


def _state(run: BulkRun) -> str:
    return run.state.replace("_", " ")


def _over(run: BulkRun) -> str:
    return "" if run.state == BulkState.RUNNING else f"The run is over: {_state(run)}."


def _percent(run: BulkRun) -> int:
    return round(run.handled * 100 / run.total) if run.total else 100


STOP = QueueOperation(
    name="stop",
    label="Stop",
    icon="stop_circle",
    variant="danger",
    form=OptionalReasonForm,
    effect="The run handles no more rows. The rows that it has handled stay as they are.",
    obstacle=_over,
    perform=bulk.stop,
    report=lambda run: f"Stopped: {run.handled:,} of {run.total:,} were handled.",
)


@admin.register(BulkRun)
class BulkRunAdmin(TenantOperationsAdmin):
    """Bulk runs, newest first."""

    operations = (STOP,)
    change_form_template = "admin/jobs/bulkrun/page.html"
    list_before_template = "admin/jobs/partials/live_list.html"
    empty_text = (
        "No bulk runs. Start one on the triage board or from a list of jobs or dead letters."
    )
    list_display = ("what", "state_now", "progress", "whose", "who", "started")
    list_filter = (FirmFilter,)
    list_select_related = ("firm",)
    ordering = ("-id",)
    what = column("Run", lambda run: [str(run), selection_in_words(run)], header=True)
    state_now = column("State", _state, label=LABELS)
    progress = column("Progress", lambda run: f"{_percent(run)}%")
    whose = column(
        "Firm",
        lambda run: name_cell(EVERY_FIRM if run.on_every_firm else firm_name(run)),
        ordering="firm",
    )
    who = column("By", lambda run: run.started_by_name)
    started = age_column("Started", "created_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[BulkRun]:
        """Fetch the firm with the rows, and whether they have members of other firms."""
        rows: QuerySet[BulkRun] = super().get_queryset(request)
        return with_reach(rows.select_related("firm"))

    def get_urls(self) -> list[URLPattern]:
        """Add the progress, as JSON."""
        progress = self.admin_site.admin_view(self.progress_view)
        own = path("<path:object_id>/progress/", progress, name=self.url_name("progress"))
        return [own, *super().get_urls()]

    def progress_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return the figures that the page keeps up to date."""
        run: Any = self.get_object(request, object_id)
        now = database_now()
        waits = _waits(run, why_run_waits(run), now)
        answer = JsonResponse({"state": run.state, "waits": waits, **_figures(run, now)})
        answer["Cache-Control"] = "no-store"
        return answer

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return the run's progress, and the address to go back to."""
        details, now = details_of_run(row), database_now()
        back = request.GET.get("back", "")
        if not url_has_allowed_host_and_scheme(back, allowed_hosts=None):
            back = _listing(row)
        return {
            **super().page_context(request, row),
            "title": str(row),
            "subtitle": None,
            "run": row,
            "state": _state(row),
            "state_label": LABELS[_state(row)],
            "figures": _figures(row, now),
            "refusals": details.refusals,
            "stranded": _stranded(row, details.job_status),
            "waits": _waits(row, details.reasons, now),
            "progress_url": self.address("progress", row.pk),
            "back": back,
            "facts": _facts(row, reads_log=access_in(request).may(Role.ADMIN, row.firm_id)),
        }

    def subject(self, row: BulkRun) -> str:
        """Return the operation and how far it is."""
        return f"{row}: {row.handled:,} of {row.total:,} handled"


def _figures(run: BulkRun, now: datetime) -> dict[str, Any]:
    ended = run.finished_at or now
    seconds = max((ended - run.created_at).total_seconds(), 0.001)
    return {
        "handled": run.handled,
        "done": f"{run.done:,}",
        "refused": f"{run.refused:,}",
        "percent": f"{_percent(run)}%",
        "seconds": in_words(seconds),
        "speed": f"{run.handled / seconds:,.0f} a second",
        "canary": _canary(run),
    }


def _canary(run: BulkRun) -> str:
    if not run.canary_size:
        return ""
    if run.state == BulkState.CANARY_FAILED:
        return (
            f"More than {run.canary_max_failure_rate:.0%} of the canary failed again. The run "
            "stopped."
        )
    if run.canary_passed_at is not None:
        return "The canary passed."
    if not run.has_canary_out:
        return f"The canary of {run.canary_size:,} goes first."
    waits = f"Waiting for the jobs of the canary of {run.canary_size:,}"
    reasons = why_canary_waits(run) if run.state == BulkState.RUNNING else []
    why = "; ".join(reason.detail for reason in reasons)
    return f"{waits}: {why}." if why else f"{waits}."


def _stranded(run: BulkRun, job_status: str) -> str:
    """Say why a run that is not over makes no progress; "" if its job may still run."""
    if run.state != BulkState.RUNNING or job_status not in RETRYABLE:
        return ""
    return f"The run's job is {job_status}. Retry that job and the run goes on, or stop the run."


def _waits(run: BulkRun, reasons: Sequence[WaitReason], now: datetime) -> str:
    """Say why the job of a run waits, and since when no member was handled; "" if it does not."""
    # Short waits do not count, because a run pauses between its chunks.
    lasting = [one for one in reasons if one.until is None or one.until - now >= SHORT_PAUSE]
    if not lasting:
        return ""
    seconds = (now - (run.last_chunk_at or run.created_at)).total_seconds()
    why = "; ".join(reason.detail for reason in lasting)
    return f"No row was handled for {in_words(seconds)}. The job of this run waits: {why}."


def _searched(run: BulkRun) -> str:
    """Return the address of the list with the run's search or failure; "" if it had neither."""
    chosen = run.selection.get("filter") or {}
    search = chosen.get("q") or chosen.get("fingerprint")
    return _listing(run, q=search) if search else ""


def _listing(run: BulkRun, **filters: str) -> str:
    """Return the address of the list whose rows the run changes."""
    return list_url(
        "deadletterqueue" if run.operation in OF_DEAD_LETTERS else "jobqueue", **filters
    )


def _facts(run: BulkRun, *, reads_log: bool) -> list[Fact]:
    log = f"{reverse('admin:tenants_auditentry_changelist')}?{urlencode({'q': run.correlation_id})}"
    rate = run.rate_per_second
    priority = None if run.priority is None else Priority(run.priority).word
    return [
        Fact("Run (bulk_run in the audit log)", run.pk, is_code=True),
        Fact("Its job", run.job_id, job_url(run.job_id), is_code=True),
        Fact("Audit log", "Every change of this run" if reads_log else None, log),
        Fact("For", selection_in_words(run), _searched(run)),
        Fact("Firm", EVERY_FIRM if is_on_every_firm(run) else run.firm.name),
        Fact("Started by", run.started_by_name),
        Fact("Reason", run.reason),
        Fact("Priority", priority),
        Fact("Rows per second, at most", f"{rate:g}" if rate else None),
        Fact("Canary", canary_in_words(run)),
        Fact("Started", exact(run.created_at)),
        Fact("Last handled", exact(run.last_chunk_at)),
        Fact("Finished", exact(run.finished_at)),
    ]
