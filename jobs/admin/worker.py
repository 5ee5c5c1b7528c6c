"""Workers in the admin; they serve every firm, so only platform staff sees them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from django import forms
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from interfaces.admin.base import column
from interfaces.admin.operations import Operation, OperationForm, OptionalReasonForm, TextAnswer
from jobs import VERSION
from jobs.admin.base import LABELS, QueueOperation, age_column, job_url
from jobs.engine.clock import database_now
from jobs.models import Worker
from jobs.operations import workers
from jobs.queries.lists import newest_version, running_jobs
from jobs.states import WorkerRequest, WorkerState
from tenants.admin.base import TenantOperationsAdmin
from tenants.scope import sees_all_firms

ASKED: dict[str, str] = {
    WorkerRequest.QUIET: "claim nothing",
    WorkerRequest.DRAIN: "finish and exit",
    WorkerRequest.STOP: "stop",
}


def _state(worker: Any) -> str:
    if worker.dead_at is not None:
        return WorkerState.DEAD
    return WorkerState.LIVE if worker.lease_expires_at > worker.read_at else WorkerState.SILENT


def _version(worker: Worker) -> SafeString | str:
    """Return the version, with a warning if it is not the newest one or not this page's."""
    newest = getattr(worker, "newest", None)
    faults = [
        text
        for other, text in ((newest, f"the newest is {newest}"), (VERSION, f"this page: {VERSION}"))
        if other is not None and worker.version != other
    ]
    if not faults:
        return worker.version
    return format_html(
        '{} <span class="queue-refusal">{}</span>', worker.version, "; ".join(faults)
    )


def _asked(worker: Worker) -> str:
    return ASKED.get(worker.requested, "-")


def _running_links(worker: Worker) -> SafeString | str:
    """Return links to the jobs that it runs, each on a line."""
    links = ((job_url(job_id), job_id) for job_id in worker.running)
    lines = format_html_join("\n", '<a class="queue-link queue-code" href="{}">{}</a><br>', links)
    return lines or "-"


def _operation(name: str, label: str, icon: str, effect: str) -> QueueOperation:
    request = "" if name == "resume" else name

    def not_possible(worker: Worker) -> str:
        return workers.obstacle(worker, request)

    return QueueOperation(
        name=name,
        label=label,
        icon=icon,
        variant="danger" if name == "stop" else "default",
        form=OptionalReasonForm,
        effect=f"{effect} The worker does so at its next heartbeat.",
        obstacle=not_possible,
        seen=lambda worker: worker.requested,
        perform=workers.OPERATIONS[name],
        report=lambda worker: f"{worker} was asked to {name}.",
    )


class HostForm(OperationForm):
    """What to ask of each live worker of a host."""

    host = forms.ChoiceField()
    name = forms.ChoiceField(
        label="Ask them to", choices=[(one, one) for one in workers.OPERATIONS]
    )
    reason = TextAnswer(required=False, help_text="Kept in the audit log.")

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Offer the hosts of live workers."""
        live = Worker.objects.filter(dead_at__isnull=True, lease_expires_at__gt=database_now())
        hosts = live.order_by("host").values_list("host", flat=True).distinct()
        cast("forms.ChoiceField", self.fields["host"]).choices = [(host, host) for host in hosts]


@admin.register(Worker)
class WorkerAdmin(TenantOperationsAdmin):
    """Worker processes and their leases; an operator may ask them to end, or to claim nothing."""

    operations = (
        _operation("quiet", "Quiet", "pause", "The worker claims no more jobs but stays alive."),
        _operation("resume", "Resume", "play_arrow", "The worker claims jobs again."),
        _operation(
            "drain",
            "Drain",
            "hourglass_bottom",
            "The worker claims no more jobs, finishes what it is running, however long that "
            "takes, and exits. It is not replaced.",
        ),
        _operation(
            "stop",
            "Stop",
            "stop_circle",
            "The worker claims no more jobs and exits. Jobs still running after the grace period "
            "return to the queue. The worker is not replaced.",
        ),
    )
    list_operations = (
        QueueOperation(
            name="host",
            label="Ask a whole host",
            icon="dns",
            form=HostForm,
            effect="Each live worker of the host is asked and does so at its next heartbeat.",
            perform=workers.on_host,
            report=lambda asked: f"Asked: {', '.join(map(str, asked))}.",
        ),
    )

    list_before_template = "admin/jobs/partials/live_list.html"
    empty_text = "Jobs wait until a worker is started: manage.py runworker"
    list_display = (
        *("name", "state", "asked", "serves", "load", "memory", "runs", "heartbeat", "since"),
    )
    ordering = ("-started_at", "-id")
    fields = (
        "id",
        "host",
        "pid",
        "runs",
        "state",
        "asked",
        "serves",
        "load",
        "memory",
        "started_at",
        "heartbeat_at",
        "lease_expires_at",
        "dead_at",
        "knows",
        "holds",
    )
    name = column("Worker", lambda worker: f"{worker.host}:{worker.pid}")
    state = column("State", _state, label=LABELS)
    asked = column("Asked to", _asked)
    runs = column("Version", _version)
    serves = column("Serves", lambda worker: ", ".join(worker.categories) or "all categories")
    knows = column("Job types", lambda worker: ", ".join(worker.job_types) or "-")
    holds = column("Running jobs", _running_links)
    load = column("Running", lambda worker: f"{len(worker.running)} of {worker.concurrency}")
    memory = column("Memory", lambda row: filesizeformat(row.rss_bytes) if row.rss_bytes else "-")
    heartbeat = age_column("Heartbeat", "heartbeat_at")
    since = age_column("Started", "started_at")

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Allow platform staff: a worker's row names jobs of every firm."""
        return sees_all_firms()

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Allow platform staff."""
        return sees_all_firms()

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Leave out the jobs that have ended since the last heartbeat."""
        found: ChangeList = super().get_changelist_instance(request)
        _complete(found.result_list)
        return found

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Model:
        """Leave out the jobs that have ended since the last heartbeat."""
        found: Any = super().get_object(request, object_id, from_field)
        _complete([found])
        return cast("Model", found)


def _complete(shown: Iterable[Any]) -> None:
    """Leave out the jobs that have ended since; add the newest version and the database's time."""
    running, newest, read_at = running_jobs(shown), newest_version(), database_now()
    for worker in shown:
        worker.newest, worker.read_at = newest, read_at
        worker.running = running[worker.pk]
