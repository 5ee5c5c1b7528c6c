"""The progress of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from jobs.engine.transactions import reading
from jobs.errors import UnknownJob
from jobs.models import Batch, BatchMember
from jobs.states import BATCH_STATES, BatchState

FAILED_SHOWN = 100


@dataclass(frozen=True)
class BatchProgress:
    """How many jobs of a batch are in each state, and when its events came (None: not yet).

    `failed` counts dead-lettered jobs, too, and `canceled` deleted ones.
    """

    pending: int
    completed: int
    failed: int
    canceled: int
    failed_at: datetime | None
    settled_at: datetime | None
    completed_at: datetime | None

    @property
    def total(self) -> int:
        """All its jobs."""
        return self.pending + self.completed + self.failed + self.canceled

    @property
    def state(self) -> BatchState:
        """The batch's state; it is running while one of its jobs is pending, even after a retry."""
        if self.completed_at is not None:
            return BatchState.COMPLETED
        if self.settled_at is None or self.pending:
            return BatchState.RUNNING
        return BatchState.FAILED if self.failed else BatchState.CANCELED


def batch_progress(batch_id: UUID | str) -> BatchProgress:
    """Return how far a batch is, by the id that `enqueue_batch` gave, whatever the scope.

    Raises:
        UnknownJob: there is no such batch (it may have been purged), or the text is no id.
    """
    try:
        pk = UUID(str(batch_id))
    except ValueError as error:
        raise UnknownJob(f"{str(batch_id)[:64]!r} is not an id") from error
    rows = with_counts(Batch.objects.unscoped("an id given by the engine"), unscoped=True)
    row = reading(lambda: rows.filter(pk=pk).first())
    if row is None:
        raise UnknownJob(f"no batch {batch_id}")
    return progress_of(row)


def batch_rows() -> QuerySet[Any]:
    """Return the batches in scope with their firms, and their counts for `progress_of`."""
    return with_counts(Batch.objects.select_related("firm"))


def progress_of(row: Any) -> BatchProgress:
    """Return how far a row of `batch_rows` is."""
    return BatchProgress(
        **{state: getattr(row, f"{state}_count") for state in BATCH_STATES},
        failed_at=row.failed_at,
        settled_at=row.settled_at,
        completed_at=row.completed_at,
    )


def progress_in_words(progress: BatchProgress) -> str:
    """Return how far a batch is, such as `97 of 100 completed, 2 failed`."""
    counted = {"failed": progress.failed, "canceled": progress.canceled}
    parts = [f"{progress.completed:,} of {progress.total:,} completed"]
    parts += [f"{count:,} {word}" for word, count in counted.items() if count]
    return ", ".join(parts)


def failed_jobs_of(batch: Batch) -> Sequence[UUID]:
    """Return the ids of jobs in scope that failed or were dead-lettered, the oldest first."""
    members = BatchMember.objects.filter(firm_id=batch.firm_id, batch_id=batch.pk, state="failed")
    return list(members.order_by("job_id").values_list("job_id", flat=True)[:FAILED_SHOWN])


def with_counts(rows: QuerySet[Batch], *, unscoped: bool = False) -> QuerySet[Any]:
    """Return the rows with their counts; `unscoped`: of any firm, whatever the scope."""
    manager = BatchMember.objects
    members = manager.unscoped("of a batch by its id") if unscoped else manager.all()
    return rows.annotate(
        **{
            f"{state}_count": Coalesce(
                Subquery(
                    members.filter(
                        firm_id=OuterRef("firm_id"), batch_id=OuterRef("pk"), state=state
                    )
                    .order_by()
                    .values("batch_id")
                    .annotate(number=Count("pk"))
                    .values("number"),
                    output_field=IntegerField(),
                ),
                0,
            )
            for state in BATCH_STATES
        }
    )
