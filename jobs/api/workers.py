"""`workers/`: who works."""

from __future__ import annotations

from http import HTTPStatus

from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation, page_of
from jobs.api.requests import WorkerQuery
from jobs.api.views import QueueView
from jobs.queries.filters import WorkerFilter
from jobs.queries.lists import list_workers, running_jobs
from jobs.queries.serializers.stats import WorkerSerializer
from jobs.states import Category, WorkerState


class WorkerList(QueueView):
    """The workers. They serve every firm, so everybody sees them; not so what they run."""

    query_class = WorkerQuery

    @operation(
        "workers_list",
        tag="workers",
        summary="List workers",
        description="The latest started first. Of what a worker runs, only the jobs of the "
        "caller's firms are named. Filters are combined.",
        answers={HTTPStatus.OK: OpenApiResponse(page_of(WorkerSerializer), "A page of workers.")},
        query=WorkerQuery,
    )
    def get(self, request: Request) -> Response:
        """Return a page of workers."""
        asked = self.query
        wanted = WorkerFilter(
            state=WorkerState(asked["state"]) if "state" in asked else None,
            category=Category(asked["category"]) if "category" in asked else None,
            host=asked.get("host"),
        )
        page = list_workers(wanted, limit=asked["limit"], cursor=asked.get("cursor"))
        running = running_jobs(page.rows)
        return Response(
            {
                "results": WorkerSerializer(
                    page.rows, many=True, context={"running": running}
                ).data,
                "next": page.next_cursor,
            }
        )
