"""`BulkRun` and `BulkMember`: one operation on many dead letters or jobs, and those it is done to."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from interfaces.correlation import MAX_CORRELATION_ID_LENGTH
from interfaces.stored_json import StoredJSONField
from jobs.models.base import QueueModel, choices
from jobs.states import BulkOperation, BulkState, MemberState


class BulkRun(QueueModel):
    """An operation on many rows, done in chunks by a job; the system firm owns those on every firm."""

    operation = models.CharField(max_length=15, choices=choices(BulkOperation))
    selection = StoredJSONField(help_text="The filter, or how many ids were given.")
    reason = models.TextField(default="", blank=True)
    priority = models.SmallIntegerField(
        null=True, blank=True, help_text="The priority that set_priority sets."
    )
    rate_per_second = models.FloatField(null=True, blank=True, help_text="Empty means no limit.")
    canary_size = models.IntegerField(default=0, help_text="0 means no canary.")
    canary_max_failure_rate = models.FloatField(default=0.2)
    canary_passed_at = models.DateTimeField(null=True, blank=True)
    state = models.CharField(
        max_length=15, choices=choices(BulkState), default=BulkState.RUNNING.value
    )
    total = models.IntegerField(default=0, help_text="The number of members, fixed at the start.")
    done = models.IntegerField(default=0)
    refused = models.IntegerField(
        default=0, help_text="Members whose state no longer allowed the operation."
    )
    job_id = models.UUIDField(help_text="The job that performs the run.")
    correlation_id = models.CharField(
        max_length=MAX_CORRELATION_ID_LENGTH,
        help_text="The correlation id of the job and of every audit entry.",
    )
    door = models.CharField(max_length=20)
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    started_by_name = models.CharField(
        max_length=200, help_text="The operator's name, as in the audit log."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    last_chunk_at = models.DateTimeField(null=True, blank=True)
    rate_used_until = models.DateTimeField(
        null=True, blank=True, help_text="From this time on the rate allows more members."
    )
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "bulk run"
        constraints = [
            models.CheckConstraint(
                condition=Q(operation__in=list(BulkOperation)), name="bulk_run_operation_known"
            ),
            models.CheckConstraint(
                condition=Q(state__in=list(BulkState)), name="bulk_run_state_known"
            ),
        ]
        indexes = [models.Index(fields=["firm", "id"], name="bulk_run_newest")]

    def __str__(self) -> str:
        return f"{self.operation.replace('_', ' ')} {self.total:,}"

    @property
    def handled(self) -> int:
        """The members that are done or refused."""
        return self.done + self.refused

    @property
    def awaits_canary(self) -> bool:
        """Whether the rest waits for what becomes of the canary."""
        return bool(self.canary_size) and self.canary_passed_at is None

    @property
    def canary_job_ids(self) -> list[UUID]:
        """The jobs of the canary's members, which are the first that were not refused."""
        done = BulkMember.objects.filter(run=self, state=MemberState.DONE).order_by("target_id")
        return list(done.values_list("job_id", flat=True)[: self.canary_size])

    @property
    def has_canary_out(self) -> bool:
        """Whether the canary is complete; refused members do not count, as they try nothing."""
        return self.done >= self.canary_size or self.handled >= self.total


class BulkMember(QueueModel):
    """A dead letter or job of a bulk run; they are handled in the order of their ids, oldest first."""

    run = models.ForeignKey(
        BulkRun,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="members",
    )
    target_id = models.UUIDField(help_text="The dead letter or the job that the operation is for.")
    job_id = models.UUIDField(help_text="The dead letter's job, or the job itself.")
    state = models.CharField(
        max_length=10, choices=choices(MemberState), default=MemberState.PENDING.value
    )
    note = models.CharField(
        max_length=200, default="", blank=True, help_text="Why the operation was refused."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["firm", "run", "target_id"], name="bulk_member_once"),
            models.CheckConstraint(
                condition=Q(state__in=list(MemberState)), name="bulk_member_state_known"
            ),
        ]
        indexes = [
            models.Index(fields=["run", "target_id"], name="bulk_member_order"),
            models.Index(
                fields=["run", "target_id"],
                condition=Q(state="pending"),
                name="bulk_member_pending",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.target_id}: {self.state}"
