"""What rows with due dates have in common: reminders, digests, and agents' schedules."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from jobs.registry.timetable import MAX_CRON_LENGTH, Timetable
from tenants.models import TenantModel

MAX_ZONE_LENGTH = 50


class DatedRow(TenantModel):
    """A row that is due once, or again and again."""

    due_at = models.DateTimeField(
        null=True, blank=True, help_text="The next date that is not in the queue yet; empty: none."
    )
    queued_at = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text="The last date that was put into the queue.",
    )

    class Meta:
        abstract = True

    @property
    def timetable(self) -> Timetable | None:
        """When the row is due again; None if never."""
        raise NotImplementedError


class RecurringRow(DatedRow):
    """A row that is due again and again, by a cron expression or an interval, or only once."""

    cron = models.CharField(  # noqa: DJ001 - one of two is null, which a constraint holds
        max_length=MAX_CRON_LENGTH,
        null=True,
        blank=True,
        help_text="Minute, hour, day, month, weekday; either this or an interval.",
    )
    interval_seconds = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Counted from date to date."
    )
    time_zone = models.CharField(
        max_length=MAX_ZONE_LENGTH,
        default="UTC",
        help_text="The zone whose clock the cron expression names.",
    )

    class Meta:
        abstract = True

    @property
    def timetable(self) -> Timetable | None:
        """When the row is due again; None if never."""
        if self.cron is None and self.interval_seconds is None:
            return None
        return Timetable(self.cron, self.interval_seconds, self.time_zone)


def one_timetable(name: str) -> models.CheckConstraint:
    """Return the constraint that a row has at most one of cron expression and interval."""
    return models.CheckConstraint(
        condition=Q(cron__isnull=True) | Q(interval_seconds__isnull=True), name=name
    )
