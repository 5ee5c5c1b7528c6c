"""`queues/`: the figures of the queue."""

from __future__ import annotations

from http import HTTPStatus

from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from jobs.api.requests import FirmQuery
from jobs.api.views import QueueView
from jobs.queries.serializers.stats import QueueStatsSerializer
from jobs.queries.stats import queue_stats


class Queues(QueueView):
    """The queue of the caller's firms."""

    query_class = FirmQuery

    @operation(
        "queues_show",
        tag="queues",
        summary="Queue statistics",
        description="Jobs by category and status, the oldest wait, throughput and failure rate.",
        answers={HTTPStatus.OK: OpenApiResponse(QueueStatsSerializer, "The figures.")},
        query=FirmQuery,
    )
    def get(self, request: Request) -> Response:
        """Return the statistics."""
        return Response(QueueStatsSerializer(queue_stats()).data)
