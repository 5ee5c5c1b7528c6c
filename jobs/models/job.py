"""`JobQueue`: one row per job, and the table that workers write all the time.

A claim changes status, attempts, claimed_at, started_at, lease_token, worker_id and updated_at. No
index or index condition names any of them, so that a claim is a HOT update: it stays in the page of
its row and writes no index. tests/plans checks it.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Case, Q, Value, When
from django.db.models.functions import Now
from uuid_utils.compat import uuid7

from interfaces.correlation import MAX_CORRELATION_ID_LENGTH
from interfaces.stored_json import StoredJSONField
from jobs.models.base import UNCONSTRAINED, choices
from jobs.states import PRIORITY_CHOICES, Category, CountedBy, Priority, Status
from tenants.models import FirmOwned, TenantManager


class JobQueue(FirmOwned):
    """A job: what to run, for whom, when, and how far it got."""

    job_id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    firm = models.ForeignKey(
        "tenants.Firm",
        related_name="+",
        **UNCONSTRAINED,
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        related_name="+",
        help_text="On whose behalf it runs; the job is deleted with the user.",
        **UNCONSTRAINED,
    )
    parent = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        related_name="+",
        help_text="The job whose handler enqueued this one.",
        **UNCONSTRAINED,
    )
    category = models.CharField(max_length=20, choices=choices(Category))
    job_type = models.CharField(max_length=100)
    payload_version = models.CharField(max_length=20)
    payload = StoredJSONField()
    correlation_id = models.CharField(max_length=MAX_CORRELATION_ID_LENGTH)
    status = models.CharField(
        max_length=10, choices=choices(Status), default=Status.PENDING, db_default=Status.PENDING
    )
    priority = models.SmallIntegerField(
        choices=PRIORITY_CHOICES,
        default=Priority.NORMAL,
        db_default=Priority.NORMAL,
    )
    attempts = models.SmallIntegerField(
        default=0,
        db_default=0,
        help_text="Attempts so far in this series; a released claim does not count.",
    )
    max_attempts = models.SmallIntegerField(default=3, db_default=3)
    last_error = models.TextField(default="", db_default="", blank=True)
    result = StoredJSONField(null=True, blank=True)
    scheduled_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(
        null=True, blank=True, help_text="If the job has not started by then, it fails as expired."
    )
    claimed_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    completed_at = models.DateTimeField(null=True, blank=True)
    lease_token = models.BigIntegerField(
        default=0,
        db_default=0,
        help_text="Grows with every claim, and every write of a worker names it. Settling negates "
        "it.",
    )
    worker_id = models.UUIDField(null=True, blank=True)
    lock_key = models.CharField(  # noqa: DJ001 - unknown is null in every shape
        max_length=200, null=True, blank=True
    )
    lock_limit = models.SmallIntegerField(
        default=1, db_default=1, help_text="How many jobs with this lock key may run at once."
    )
    lock_counted_by = models.CharField(
        max_length=10,
        default=CountedBy.FIRM,
        db_default=CountedBy.FIRM.value,
        help_text="Whose jobs with this lock key count: the firm's, or those of all firms.",
    )
    limit_key = models.CharField(  # noqa: DJ001 - as the lock key
        max_length=200,
        null=True,
        blank=True,
        help_text="Pauses, breakers and rate limits can apply to jobs of this key only.",
    )
    limit_units = models.IntegerField(
        default=1, db_default=1, help_text="How many units the job counts as in rate limits."
    )
    idempotency_key = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001
    live_key = models.CharField(  # noqa: DJ001
        max_length=200,
        null=True,
        blank=True,
        help_text="The idempotency key while the job is live; free again when the job is settled.",
    )
    ready = models.BooleanField(
        default=True,
        db_default=True,
        help_text="The job waits for nothing but its due time; stays true while it runs.",
    )
    waiting = models.BooleanField(
        default=False,
        db_default=False,
        help_text="The job waits for a lock slot, a cap, a rate limit or a pause.",
    )
    admitted = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Counted against its firm's cap and its type's rate limit; may start while both "
        "have room.",
    )
    deaths = models.SmallIntegerField(
        default=0, db_default=0, help_text="How many workers died while running it."
    )
    series = models.SmallIntegerField(
        default=1, db_default=1, help_text="Grows with every retry or reprocess by hand."
    )
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    progress = models.FloatField(
        null=True, blank=True, help_text="The progress that the handler reported, from 0 to 1."
    )
    progress_note = models.CharField(max_length=200, default="", db_default="", blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(db_default=Now(), editable=False)

    objects: TenantManager[Any] = TenantManager()

    class Meta:
        verbose_name = "job"
        verbose_name_plural = "jobs"
        constraints = [
            models.CheckConstraint(condition=Q(status__in=list(Status)), name="job_status_known"),
            models.CheckConstraint(
                condition=Q(category__in=list(Category)), name="job_category_known"
            ),
            models.CheckConstraint(
                condition=Q(priority__gte=0, priority__lte=3), name="job_priority_known"
            ),
            models.CheckConstraint(
                condition=Q(attempts__gte=0, attempts__lte=models.F("max_attempts")),
                name="job_attempts_within_max",
            ),
            models.CheckConstraint(condition=~Q(ready=True, waiting=True), name="job_not_both"),
            models.UniqueConstraint(
                fields=["firm", "live_key"],
                condition=Q(live_key__isnull=False),
                name="job_live_key_once",
            ),
        ]
        indexes = [
            models.Index(
                fields=["priority", "firm", "scheduled_at", "job_id"],
                condition=Q(ready=True),
                name="job_claim",
            ),
            # The same for workers of some categories or types only: each kind of job is a lane.
            models.Index(
                fields=["category", "job_type", "priority", "firm", "scheduled_at", "job_id"],
                condition=Q(ready=True),
                name="job_lane",
            ),
            # By waiting group: a firm, a lock key, a type and a limit key ("" for no key). Within a
            # group in the order of admission, so that finding its first job reads one entry.
            models.Index(
                "firm",
                Case(When(lock_key__isnull=True, then=Value("")), default="lock_key"),
                "job_type",
                Case(When(limit_key__isnull=True, then=Value("")), default="limit_key"),
                "priority",
                "scheduled_at",
                "job_id",
                condition=Q(waiting=True),
                name="job_waiting_group",
            ),
            models.Index(
                fields=["firm", "job_type"],
                condition=Q(admitted=True, ready=True),
                name="job_admitted",
            ),
            models.Index(fields=["firm", "job_id"], name="job_firm"),
            # Partial, so that jobs on nobody's behalf, which most are, cost nothing.
            models.Index(
                fields=["user", "job_id"], condition=Q(user__isnull=False), name="job_user"
            ),
            # The few jobs that ended without completing: only completed jobs have a result. The
            # condition does not name the status, because a claim writes it.
            models.Index(
                fields=["job_id", "firm"],
                condition=Q(completed_at__isnull=False, result__isnull=True),
                name="job_without_result",
            ),
            models.Index(
                fields=["expires_at"],
                condition=Q(expires_at__isnull=False, completed_at__isnull=True),
                name="job_expiry",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_type} {self.job_id}"

    @property
    def shares_lock(self) -> bool:
        """Whether the job needs a slot that all firms share."""
        return self.lock_key is not None and self.lock_counted_by == CountedBy.ALL_FIRMS
