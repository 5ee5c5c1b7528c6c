"""`batches/`: the progress of jobs that were enqueued as one batch."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse

from jobs.api.views import QueueView, list_operation, show_operation
from jobs.models import Batch
from jobs.queries.batches import batch_rows
from jobs.queries.serializers.batches import BatchDetailSerializer, BatchSerializer


class Batches(QueueView):
    """The batches of the caller's firms."""

    resource = tag = "batches"
    model, serializer = Batch, BatchDetailSerializer

    list = list_operation(
        "List batches",
        "The latest first, with how many of their jobs are in each state. Batches are kept as "
        "long as finished jobs, and longer while one of their jobs can be retried.",
        serializer=BatchSerializer,
        rows="batches",
    )
    show = show_operation(
        "Show a batch",
        "With the ids of its jobs that failed.",
        answer=OpenApiResponse(BatchDetailSerializer, "The batch."),
    )

    def get_rows(self, **_: Any) -> QuerySet[Batch]:
        """Return the batches in scope with their counts."""
        return batch_rows()
