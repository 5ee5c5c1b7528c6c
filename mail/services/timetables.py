"""The dates of reminders and agent schedules: changed and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from jobs.registry.timetable import TimetableInvalid, check_time_zone
from mail.models.recurring import RecurringRow
from mail.services.rules.scopes import fault

DEFAULTS: dict[str, Any] = {
    "due_at": None,
    "cron": None,
    "interval_seconds": None,
    "time_zone": "UTC",
}
DATES = tuple(DEFAULTS)


def merged(
    before: Mapping[str, Any], settings: Mapping[str, Any], *, plans: bool
) -> dict[str, Any]:
    """Return all settings; a new timetable without a given date computes its own next date."""
    found = {**before, **settings}
    repeats = found["cron"] or found["interval_seconds"] is not None
    if plans and repeats and "due_at" not in settings:
        found["due_at"] = None
    return found


def plan(row: RecurringRow) -> list[dict[str, str]]:
    """Give the row its first date if it has none, and return the faults of its dates."""
    row.cron = row.cron or None
    now = timezone.now()
    try:
        check_time_zone(row.time_zone)
        if row.cron is not None and row.interval_seconds is not None:
            return [fault("cron", "give either a cron expression or an interval")]
        timetable = row.timetable
        if row.due_at is None and timetable is not None:
            row.due_at = timetable.first_after(now)
    except TimetableInvalid as error:
        return [fault(error.field, str(error))]
    if row.due_at is None:
        return [fault("due_at", "is missing: give it, or a cron expression or an interval")]
    if row.due_at <= now:
        return [fault("due_at", "must be in the future")]
    return []
