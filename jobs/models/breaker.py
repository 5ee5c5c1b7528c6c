"""`CircuitBreaker`: recent failures of one firm's jobs of one type."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Q

from jobs.models.base import QueueModel
from jobs.states import BreakerState


class CircuitBreaker(QueueModel):
    """Holds back a firm's jobs of one type while it is not closed; no row, no recent failure."""

    job_type = models.CharField(max_length=100)
    state = models.CharField(
        max_length=10,
        choices=[(word.value, word.value.replace("_", " ")) for word in BreakerState],
        default=BreakerState.CLOSED,
    )
    attempts = models.IntegerField(default=0, help_text="In this window, failed or not.")
    failures: models.JSONField[Any, Any] = models.JSONField(
        default=dict, help_text="In this window, how many per fingerprint."
    )
    window_ends_at = models.DateTimeField(help_text="Then counting begins anew.")
    trips = models.IntegerField(
        default=0, help_text="How often it opened in a row; each time for twice as long."
    )
    fingerprint = models.CharField(
        max_length=32, default="", blank=True, help_text="The failure that opened it."
    )
    opened_at = models.DateTimeField(null=True, blank=True)
    probe_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When one job may be tried; while one is, when another takes its place.",
    )
    probe_job_id = models.UUIDField(null=True, blank=True, help_text="The job that is tried.")

    class Meta:
        verbose_name = "circuit breaker"
        constraints = [
            models.UniqueConstraint(fields=["firm", "job_type"], name="breaker_once"),
            models.CheckConstraint(
                condition=Q(state__in=list(BreakerState)), name="breaker_state_known"
            ),
        ]
        indexes = [
            # Every claim checks whether one is open.
            models.Index(
                fields=["firm", "job_type"],
                condition=Q(state__in=["open", "half_open"]),
                name="breaker_not_closed",
            )
        ]

    def __str__(self) -> str:
        return self.job_type
