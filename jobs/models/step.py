"""`JobStep`: the stored result of a step that ran."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from interfaces.stored_json import StoredJSONField
from jobs.models.base import QueueModel
from jobs.models.job import JobQueue


class JobStep(QueueModel):
    """A finished step of a job; on retry its result is returned instead of running it again."""

    job = models.ForeignKey(
        JobQueue, on_delete=models.CASCADE, db_constraint=False, related_name="steps"
    )
    name = models.CharField(max_length=200)
    result = StoredJSONField(null=True)
    finished_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["finished_at", "id"]
        constraints = [
            models.UniqueConstraint(fields=["firm", "job", "name"], name="step_once_per_job")
        ]

    def __str__(self) -> str:
        return self.name
