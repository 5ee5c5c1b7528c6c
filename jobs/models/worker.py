"""`Worker`: one row per worker process, which carries the lease of all its jobs."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from uuid_utils.compat import uuid7

from jobs.models.base import IdsField, choices
from jobs.states import WorkerRequest


class Worker(models.Model):
    """A worker process. It belongs to no firm, for it serves all of them."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    host = models.CharField(max_length=200)
    pid = models.IntegerField()
    version = models.CharField(max_length=50)
    categories = models.JSONField(default=list, help_text="Empty means all.")
    job_types = models.JSONField(
        default=list, help_text="The job types that this worker's code knows."
    )
    concurrency = models.IntegerField()
    running = IdsField(
        help_text="Ids of the jobs whose handlers were started and which are not yet settled."
    )
    rss_bytes = models.BigIntegerField(default=0)
    started_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now())
    lease_expires_at = models.DateTimeField()
    requested = models.CharField(
        max_length=10,
        choices=choices(WorkerRequest),
        default="",
        db_default="",
        blank=True,
        help_text="What an operator asked of the worker; it reads this at its next heartbeat. "
        "Empty means to work as usual.",
    )
    dead_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Set once, when the worker's lease was found to have ended.",
    )

    class Meta:
        ordering = ["-started_at"]

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"
