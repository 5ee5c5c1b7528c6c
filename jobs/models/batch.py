"""`Batch` and `BatchMember`: jobs that were enqueued as one, and what becomes of each."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from interfaces.correlation import MAX_CORRELATION_ID_LENGTH
from jobs.models.base import UNCONSTRAINED, QueueModel
from jobs.models.job import JobQueue
from jobs.states import BATCH_STATES, UNCOMPLETED


class Batch(QueueModel):
    """Jobs that were enqueued as one; each `…_at` is the time of an event, which happens once."""

    name = models.CharField(max_length=200, default="", blank=True)
    correlation_id = models.CharField(max_length=MAX_CORRELATION_ID_LENGTH)
    callbacks = models.JSONField(
        default=dict, help_text="The validated jobs that it enqueues, by event."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    failed_at = models.DateTimeField(
        null=True, help_text="When the first of its jobs failed for good."
    )
    settled_at = models.DateTimeField(
        null=True, help_text="When all of its jobs were settled for the first time."
    )
    completed_at = models.DateTimeField(null=True, help_text="When all of its jobs were completed.")
    failed_job_id = models.UUIDField(
        null=True, help_text="The job enqueued at its first failure; it may have been purged."
    )
    settled_job_id = models.UUIDField(
        null=True, help_text="The job enqueued when all were settled."
    )
    completed_job_id = models.UUIDField(
        null=True, help_text="The job enqueued when all were completed."
    )

    class Meta:
        verbose_name_plural = "batches"
        indexes = [
            models.Index(fields=["firm", "id"], name="batch_newest"),
            models.Index(
                fields=["id"], condition=Q(completed_at__isnull=True), name="batch_uncompleted"
            ),
            # For the page of a callback's job.
            *(
                models.Index(
                    fields=[f"{event}_job_id"],
                    condition=Q(**{f"{event}_job_id__isnull": False}),
                    name=f"batch_{event}_job",
                )
                for event in ("failed", "settled", "completed")
            ),
        ]

    def __str__(self) -> str:
        return self.name or "a batch"


class BatchMember(QueueModel):
    """A job of a batch, with the state in which it last ended (dead-lettered is failed)."""

    batch = models.ForeignKey(Batch, related_name="members", **UNCONSTRAINED)
    job = models.ForeignKey(JobQueue, related_name="+", **UNCONSTRAINED)
    state = models.CharField(max_length=10, choices=[(word, word) for word in BATCH_STATES])

    class Meta:
        constraints = [
            # In this order for settle, which looks up the batches of a job.
            models.UniqueConstraint(fields=["firm", "job", "batch"], name="batch_member_once"),
            models.CheckConstraint(
                condition=Q(state__in=BATCH_STATES), name="batch_member_state_known"
            ),
        ]
        indexes = [
            models.Index(fields=["batch", "state"], name="batch_member_states"),
            models.Index(
                fields=["id"], condition=Q(state__in=UNCOMPLETED), name="batch_member_uncompleted"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_id}: {self.state}"
