"""`DeadLetterQueue`: the jobs that wait for an operator's decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.models.base import QueueModel, choices
from jobs.models.job import JobQueue
from jobs.states import OPEN_RESOLUTIONS, Category, DeadReason, Resolution
from tenants.scope import firm_scope

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    from tenants.audit import Actor


class DeadLetterQueue(QueueModel):
    """A job that will not be tried again by itself; at most one row for each of its series."""

    # `jobs.operations.dead_letters`; set when the app is ready, as models import no higher layer.
    operations: ClassVar[Any]

    original_job = models.ForeignKey(
        JobQueue, on_delete=models.CASCADE, db_constraint=False, related_name="dead_letters"
    )
    job_series = models.SmallIntegerField()
    # Never null: a trigger of the table fills them in if they are not given.
    category = models.CharField(  # noqa: DJ001
        max_length=20,
        null=True,
        editable=False,
        choices=choices(Category),
        help_text="The category of its job, as the type.",
    )
    job_type = models.CharField(max_length=100, null=True, editable=False)  # noqa: DJ001
    moved_at = models.DateTimeField(db_default=Now())
    reason = models.CharField(max_length=20, choices=choices(DeadReason))
    error_class = models.CharField(max_length=200, default="", blank=True)
    error = models.TextField(default="", blank=True, help_text="Redacted.")
    fingerprint = models.CharField(
        max_length=32,
        default="",
        blank=True,
        help_text="Equal failures have the same fingerprint.",
    )
    reviewed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
    )
    reviewed_at = models.DateTimeField(null=True, blank=True)
    resolution = models.CharField(
        max_length=15,
        default="",
        blank=True,
        choices=choices(Resolution),
        help_text="Empty while nobody has decided.",
    )
    resolution_note = models.TextField(default="", blank=True)
    assigned_to = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
    )
    alerted = models.BooleanField(
        default=False, db_default=False, help_text="Whether the alerts have counted it."
    )

    class Meta:
        verbose_name = "dead letter"
        verbose_name_plural = "dead letters"
        constraints = [
            models.UniqueConstraint(
                fields=["firm", "original_job", "job_series"], name="dead_letter_once_per_series"
            ),
            models.CheckConstraint(
                condition=Q(reason__in=list(DeadReason)), name="dead_letter_reason_known"
            ),
            models.CheckConstraint(
                condition=Q(resolution="") | Q(resolution__in=list(Resolution)),
                name="dead_letter_resolution_known",
            ),
        ]
        indexes = [
            models.Index(
                fields=["firm", "id"],
                condition=Q(resolution__in=list(OPEN_RESOLUTIONS)),
                name="dead_letter_open",
            ),
            # In the order of the jobs, for the list of dead jobs.
            models.Index(
                fields=["original_job"],
                condition=Q(resolution__in=list(OPEN_RESOLUTIONS)),
                name="dead_letter_open_job",
            ),
            models.Index(fields=["firm", "fingerprint"], name="dead_letter_fingerprint"),
            models.Index(fields=["firm", "id"], name="dead_letter_newest"),
            models.Index(fields=["id"], condition=Q(alerted=False), name="dead_letter_unalerted"),
        ]

    def __str__(self) -> str:
        reason = self.reason.replace("_", " ").capitalize()
        error = self.error_class.rpartition(".")[2]
        return f"{reason}: {error}" if error not in ("", reason) else reason

    def reprocess(
        self,
        *,
        by: Actor | AbstractBaseUser | None = None,
        payload: Mapping[str, Any] | None = None,
        priority: int | None = None,
        reason: str = "",
        note: str = "",
    ) -> None:
        """Run the job again: see `jobs.operations.dead_letters.reprocess`."""
        self.operations.reprocess(
            self.pk, by=by, payload=payload, priority=priority, reason=reason or note
        )
        self._read_again()

    def discard(self, reason: str, *, by: Actor | AbstractBaseUser | None = None) -> None:
        """Give the job up for good: see `jobs.operations.dead_letters.discard`."""
        self.operations.discard(self.pk, reason, by=by)
        self._read_again()

    def escalate(
        self,
        reason: str,
        *,
        to: AbstractBaseUser | None = None,
        by: Actor | AbstractBaseUser | None = None,
    ) -> None:
        """Ask somebody to decide: see `jobs.operations.dead_letters.escalate`."""
        self.operations.escalate(self.pk, reason, to=to, by=by)
        self._read_again()

    def _read_again(self) -> None:
        # The operations need no scope, because they know the id; row level security does.
        with firm_scope(self.firm_id):
            self.refresh_from_db()
