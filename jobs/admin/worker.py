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

from interfaces.admin.base import column
from jobs.admin.base import LABELS, age_column
from jobs.models import Worker
from jobs.queries.lists import running_jobs
from jobs.states import WorkerState
from tenants.admin.base import TenantAdmin, sees_all_firms


def _state(worker: Worker) -> str:
    if worker.dead_at is not None:
        return WorkerState.DEAD
    return WorkerState.LIVE if worker.lease_expires_at > timezone.now() else WorkerState.SILENT


@admin.register(Worker)
class WorkerAdmin(TenantAdmin):
    """Worker processes and their leases."""

    list_before_template = "admin/jobs/partials/live_list.html"
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
    name = column("Worker", lambda worker: f"{worker.host}:{worker.pid}")
    state = column("State", _state, label=LABELS)
    serves = column("Serves", lambda worker: ", ".join(worker.categories) or "all categories")
    load = column("Running", lambda worker: f"{len(worker.running)} of {worker.concurrency}")
    memory = column("Memory", lambda row: filesizeformat(row.rss_bytes) if row.rss_bytes else "-")
    heartbeat = age_column("Heartbeat", "heartbeat_at")
    since = age_column("Started", "started_at")

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Allow platform staff: a worker's row names jobs of every firm."""
        return sees_all_firms()

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Leave out the jobs that have ended since the last heartbeat."""
        found: ChangeList = super().get_changelist_instance(request)
        _forget_ended(found.result_list)
        return found

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Model:
        """Leave out the jobs that have ended since the last heartbeat."""
        found: Any = super().get_object(request, object_id, from_field)
        _forget_ended([found])
        return cast("Model", found)


def _forget_ended(workers: Iterable[Worker]) -> None:
    running = running_jobs(workers)
    for worker in workers:
        worker.running = running[worker.pk]
