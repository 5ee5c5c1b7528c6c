"""`Attempt`: the outcome of each attempt that did not complete its job."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from jobs.models.base import QueueModel
from jobs.models.job import JobQueue
from jobs.states import AttemptEnd


class Attempt(QueueModel):
    """A failed, snoozed, released or rescued attempt. A completed one is recorded in the job itself."""

    job = models.ForeignKey(
        JobQueue, on_delete=models.CASCADE, db_constraint=False, related_name="attempts_log"
    )
    series = models.SmallIntegerField()
    number = models.SmallIntegerField(help_text="From 1, within its series.")
    worker_id = models.UUIDField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(db_default=Now())
    end = models.CharField(max_length=15, choices=[(end.value, end.value) for end in AttemptEnd])
    error_class = models.CharField(max_length=200, default="", blank=True)
    message = models.TextField(
        default="", blank=True, help_text="Redacted, at most 2,000 characters."
    )
    traceback = models.TextField(default="", blank=True)

    class Meta:
        ordering = ["ended_at", "id"]

    def __str__(self) -> str:
        return f"attempt {self.number}: {self.end}"
