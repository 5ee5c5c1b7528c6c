"""Workers in the admin; they serve every firm, so platform staff alone sees them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils import timezone
from unfold.decorators import display

from jobs.admin.base import age
from jobs.models import Worker
from jobs.queries.lists import running_jobs
from jobs.states import WorkerState
from tenants.admin.base import TenantAdmin, sees_all_firms

STATE_LABELS = {
    WorkerState.LIVE: "success",
    WorkerState.SILENT: "warning",
    WorkerState.DEAD: "danger",
}


@admin.register(Worker)
class WorkerAdmin(TenantAdmin):
    """Worker processes and their leases."""

    list_display = ("name", "state", "serves", "load", "memory", "version", "heartbeat", "since")
    ordering = ("-started_at", "-id")
    fields = (
        "id",
        "host",
        "pid",
        "version",
        "state",
        "serves",
        "load",
        "memory",
        "started_at",
        "heartbeat_at",
        "lease_expires_at",
        "dead_at",
        "job_types",
        "running",
    )
    readonly_fields = ("state", "serves", "load", "memory")

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Allow platform staff: a worker's row names jobs of every firm."""
        return sees_all_firms()

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Show of each worker what runs now."""
        found: ChangeList = super().get_changelist_instance(request)
        _forget_ended(found.result_list)
        return found

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Model:
        """Show what runs now."""
        found: Any = super().get_object(request, object_id, from_field)
        _forget_ended([found])
        return cast("Model", found)

    @display(description="Worker")
    def name(self, worker: Worker) -> str:
        """Name the process."""
        return f"{worker.host}:{worker.pid}"

    @display(description="State", label=STATE_LABELS)
    def state(self, worker: Worker) -> str:
        """Say whether it holds its lease."""
        if worker.dead_at is not None:
            return WorkerState.DEAD
        in_force = worker.lease_expires_at > timezone.now()
        return WorkerState.LIVE if in_force else WorkerState.SILENT

    @display(description="Serves")
    def serves(self, worker: Worker) -> str:
        """Name its categories."""
        return ", ".join(worker.categories) or "all categories"

    @display(description="Running")
    def load(self, worker: Worker) -> str:
        """Say how many handlers run, of how many it can run."""
        return f"{len(worker.running)} of {worker.concurrency}"

    @display(description="Memory")
    def memory(self, worker: Worker) -> str:
        """Show its resident memory."""
        return filesizeformat(worker.rss_bytes) if worker.rss_bytes else "-"

    @display(description="Heartbeat")
    def heartbeat(self, worker: Worker) -> str:
        """Say when it was last heard of."""
        return age(worker.heartbeat_at)

    @display(description="Started")
    def since(self, worker: Worker) -> str:
        """Say when it started."""
        return age(worker.started_at)


def _forget_ended(workers: Iterable[Worker]) -> None:
    running = running_jobs(workers)
    for worker in workers:
        worker.running = running[worker.pk]
