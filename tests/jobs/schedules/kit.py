"""Helpers that most tests of schedules need."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from jobs.engine.clock import stopped_at
from jobs.models import JobQueue, Schedule
from jobs.operations.schedules import create_schedule
from jobs.schedules.tick import SlotResult, tick
from tenants.models import Firm
from tenants.scope import all_firms

# On this day no clock is changed.
START = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def at(text: str) -> datetime:
    """Return a time given in UTC, such as 2026-03-29 01:00."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def schedule(firm: Firm, *, created: datetime = START, **columns: Any) -> Schedule:
    """Store a schedule at a stopped time: `noop` every minute unless `columns` say otherwise."""
    if "interval_seconds" not in columns:
        columns.setdefault("cron", "* * * * *")
    values = {"name": "test", "job_type": "noop", **columns}
    with stopped_at(created):
        return create_schedule(firm=firm, **values)


def tick_at(moment: datetime) -> list[SlotResult]:
    """Tick at this time of the database's clock."""
    with stopped_at(moment):
        return tick()


def tick_through(start: datetime, end: datetime, step: timedelta) -> None:
    """Tick at each `step` from `start` to `end`."""
    moment = start
    while moment <= end:
        tick_at(moment)
        moment += step


def jobs() -> list[JobQueue]:
    """Return every job, by slot."""
    with all_firms("test"):
        return list(JobQueue.objects.order_by("idempotency_key"))


def slots() -> list[datetime]:
    """Return the slots that led to a job, as the jobs' correlation ids name them."""
    return sorted(slot_of(job) for job in jobs())


def slot_of(job: JobQueue) -> datetime:
    """Return the slot that led to the job."""
    return datetime.strptime(job.correlation_id.split(":")[2], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


def now(row: Schedule) -> Schedule:
    """Return the schedule as it stands in the table."""
    with all_firms("test"):
        found: Schedule = Schedule.objects.get(pk=row.pk)
        return found


def doubles(found: Iterable[datetime]) -> list[datetime]:
    """Return the values that are in `found` more than once."""
    seen: set[datetime] = set()
    return [one for one in found if one in seen or seen.add(one)]  # type: ignore[func-returns-value]  # add() returns None on purpose
