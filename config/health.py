"""`/healthz` and `/readyz` of the web process."""

from __future__ import annotations

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, JsonResponse

from jobs.queries.doctor.snapshots import is_pinned, oldest_snapshot

# The holder is not named here; the queue doctor names it to platform staff.
PINNED = "an old snapshot keeps vacuum from cleaning up; see the queue doctor"


def healthz(_: HttpRequest) -> JsonResponse:
    """Answer while the process lives."""
    return JsonResponse({"status": "ok"})


def readyz(_: HttpRequest) -> JsonResponse:
    """Answer 200 when the database is there and fully migrated, else 503 with the reason.

    A pinned snapshot is only a warning: taking this process out of service would not end it.
    """
    try:
        behind = _is_behind()
        oldest = oldest_snapshot()
    except DatabaseError:
        return JsonResponse({"status": "unready", "reason": "database unavailable"}, status=503)
    if behind:
        return JsonResponse({"status": "unready", "reason": "migrations pending"}, status=503)
    pinned = [PINNED] if is_pinned(oldest) else []
    return JsonResponse({"status": "ready", "warnings": pinned})


# The applied migrations by which this code last found nothing to apply.
_complete: set[tuple[str, str]] = set()


def _is_behind() -> bool:
    """Say whether migrations are to be applied; anybody may ask, so the graph is built seldom."""
    applied = set(MigrationRecorder(connection).applied_migrations())
    # An empty database has none, as this process has before it found any.
    if applied and applied == _complete:
        return False
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        return True
    _complete.clear()
    _complete.update(applied)
    return False
