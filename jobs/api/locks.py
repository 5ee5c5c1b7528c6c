"""`locks/`: held locks, and freeing one that its holder will not free."""

from __future__ import annotations

from http import HTTPStatus
from uuid import UUID

from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation, page_of
from jobs.api import examples
from jobs.api.requests import LockQuery, ObligatoryReason
from jobs.api.views import QueueView
from jobs.operations import locks
from jobs.queries.filters import LockFilter
from jobs.queries.lists import held_locks, list_locks
from jobs.queries.serializers.limits import LockSerializer
from jobs.states import LockKind
from tenants.models import Role

_TAG = "locks"


class LockList(QueueView):
    """The held locks of the caller's firms."""

    query_class = LockQuery

    @operation(
        "locks_list",
        tag=_TAG,
        summary="List held locks",
        description="The latest taken first, jobs' and users' locks alike. A user's lock whose "
        "time is up is not held. Filters are combined.",
        answers={HTTPStatus.OK: OpenApiResponse(page_of(LockSerializer), "A page of locks.")},
        query=LockQuery,
    )
    def get(self, request: Request) -> Response:
        """Return a page of locks."""
        asked = self.query
        wanted = LockFilter(
            kind=LockKind(asked["kind"]) if "kind" in asked else None,
            search=asked.get("search"),
        )
        page = list_locks(wanted, limit=asked["limit"], cursor=asked.get("cursor"))
        return Response(
            {"results": LockSerializer(page.rows, many=True).data, "next": page.next_cursor}
        )


class LockRelease(QueueView):
    """Freeing a lock by force."""

    @operation(
        "locks_release",
        tag=_TAG,
        summary="Release a lock by force",
        description="For a lock its holder will not free. The lock of a job in flight stays: "
        "cancel the job instead. Needs the role admin.",
        body=ObligatoryReason,
        answers={HTTPStatus.OK: OpenApiResponse(LockSerializer, "The lock as it was held.")},
        examples=[examples.RELEASE],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Release the lock."""
        lock = self.get_row(held_locks(), pk, Role.ADMIN)
        locks.force_release(lock, self.get_body(ObligatoryReason)["reason"], by=self.actor)
        return Response(LockSerializer(lock).data)
