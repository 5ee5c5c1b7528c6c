"""`workers/` and `locks/`: worker processes, held locks, and releasing a lock by force."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from jobs.api.requests import LockQuery, ObligatoryReason, WorkerQuery
from jobs.api.views import ListView, QueueView, example, list_operation
from jobs.models import ConcurrencyLock, Worker
from jobs.operations import locks
from jobs.queries.filters import filter_locks, filter_workers
from jobs.queries.lists import Page, held_locks, running_jobs
from jobs.queries.serializers.limits import LockSerializer
from jobs.queries.serializers.stats import WorkerSerializer
from tenants.models import Role

_LOCKS = "locks"


@list_operation(
    "workers_list",
    tag="workers",
    summary="List workers",
    description="The latest started first. Of what a worker runs, only the jobs of the caller's "
    "firms are named. Filters are combined.",
    rows="workers",
)
class WorkerList(ListView):
    """The workers. They serve every firm, so every caller sees them, but not all their jobs."""

    query_class = WorkerQuery
    serializer = WorkerSerializer

    def get_rows(self, **filters: Any) -> QuerySet[Worker]:
        """Return the workers."""
        return filter_workers(Worker.objects.all(), **filters)

    def get_context(self, page: Page[Worker]) -> dict[str, Any]:
        """Return the jobs that the workers run."""
        return {"running": running_jobs(page.rows)}


@list_operation(
    "locks_list",
    tag=_LOCKS,
    summary="List held locks",
    description="The latest taken first, jobs' and users' locks alike. A user's lock whose time "
    "is up is not held. Filters are combined.",
    rows="locks",
)
class LockList(ListView):
    """The held locks of the caller's firms."""

    query_class = LockQuery
    serializer = LockSerializer

    def get_rows(self, **filters: Any) -> QuerySet[ConcurrencyLock]:
        """Return the locks."""
        return filter_locks(held_locks(), **filters)


class LockRelease(QueueView):
    """Releasing a lock by force."""

    @operation(
        "locks_release",
        tag=_LOCKS,
        summary="Release a lock by force",
        description="For a lock its holder will not release. The lock of a job in flight stays: "
        "cancel the job instead. Needs the role admin.",
        body=ObligatoryReason,
        answers={HTTPStatus.OK: OpenApiResponse(LockSerializer, "The lock as it was held.")},
        examples=[example("Release", reason="The script that took it crashed")],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Release the lock."""
        lock = self.get_row(held_locks(), pk, Role.ADMIN)
        locks.force_release(lock, by=self.actor, **self.get_body(ObligatoryReason))
        return Response(LockSerializer(lock).data)
