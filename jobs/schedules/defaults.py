"""Default schedules: declared in code beside their job types, stored as rows of the system firm."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Q

from jobs import registry
from jobs.engine.clock import database_now
from jobs.engine.dialects import LOCK_TIMEOUT_MILLISECONDS
from jobs.engine.transactions import in_transaction
from jobs.models import Schedule
from jobs.registry import JobType, Scheduled
from jobs.registry.timetable import MAX_INTERVAL_SECONDS, is_time_zone
from jobs.states import MissedRuns, Priority, ScheduleTarget
from tenants.models import SYSTEM_SLUG, Firm
from tenants.scope import all_firms

# By name: the columns, and a function for the interval, a setting that is read only on storing.
_defaults: dict[str, tuple[dict[str, Any], Callable[[], int]]] = {}
# Schedules that also run when a worker starts, unless they ran in the last hour, because many
# workers may start at once.
_at_start: set[str] = set()
TIMING = frozenset({"cron", "interval_seconds", "time_zone"})
START_GAP = timedelta(hours=1)


def default_schedule(
    name: str,
    job_type: str,
    *,
    every_seconds: Callable[[], int],
    group_name: str = "",
    payload: Mapping[str, Any] | None = None,
    priority: int = Priority.NORMAL,
    at_start: bool = False,
) -> None:
    """Declare a schedule beside its job type; workers store it when they start.

    Without a group its jobs belong to the system firm. With `at_start` it also runs when a worker
    starts. Missed slots run once. Columns that an operator changed in the stored row stay changed.

    Raises:
        ValueError: another type declares a default schedule of this name.
    """
    known = _defaults.get(name)
    if known is not None and known[0]["job_type"] != job_type:
        raise ValueError(f"two default schedules are named {name!r}")
    target = ScheduleTarget.EVERY_MEMBER if group_name else ScheduleTarget.FIRM
    columns = {
        "job_type": job_type,
        "target": target.value,
        "group_name": group_name,
        "payload": dict(payload or {}),
        "priority": int(priority),
        "missed_runs": MissedRuns.RUN_ONCE.value,
    }
    _defaults[name] = (columns, every_seconds)
    if at_start:
        _at_start.add(name)


def store_default_schedules(job_types: Collection[str] | None = None) -> None:
    """Update the rows (of these types, or all) as declared, but for columns operators changed.

    Raises:
        LockTimeout: another transaction has locked one of the rows; nothing was updated.
    """

    def store() -> None:
        owner = Firm.objects.filter(slug=SYSTEM_SLUG).first()
        if owner is None:
            return
        with all_firms("schedules of the system firm"):
            for name, (columns, every_seconds) in sorted(_defaults.items()):
                if job_types is None or columns["job_type"] in job_types:
                    _store(owner, name, _declared(columns, every_seconds()))
            for one in registry.all_types():
                if one.schedule is not None and (job_types is None or one.name in job_types):
                    _store(owner, one.name, _of_type(one, one.schedule))
            _run_at_start(owner)

    in_transaction(store, lock_timeout_ms=LOCK_TIMEOUT_MILLISECONDS)


def _declared(columns: dict[str, Any], every_seconds: int) -> dict[str, Any]:
    # With the version, because an operator's change stores it too. Without it here, the payload
    # would look as if the operator had changed it.
    version = registry.get(columns["job_type"]).version
    return {
        **columns,
        "payload": {"version": version, **columns["payload"]},
        "interval_seconds": min(every_seconds, MAX_INTERVAL_SECONDS),
    }


def _of_type(declared: JobType, schedule: Scheduled) -> dict[str, Any]:
    """Return the columns of the schedule that a type declares; it has the type's name."""
    target = ScheduleTarget.EVERY_FIRM if schedule.every_firm else ScheduleTarget.FIRM
    return {
        "job_type": declared.name,
        "target": target.value,
        "group_name": "",
        "payload": {"version": declared.version, **schedule.payload},
        "priority": int(Priority.NORMAL if declared.priority is None else declared.priority),
        "missed_runs": MissedRuns.RUN_ONCE.value,
        "cron": schedule.cron,
        "interval_seconds": schedule.every_seconds,
        "time_zone": schedule.time_zone,
    }


def _run_at_start(owner: Firm) -> None:
    now = database_now()
    recent = Q(last_run_at__gt=now - START_GAP)
    Schedule.objects.filter(
        firm=owner, name__in=_at_start, enabled=True, shipped__isnull=False, next_run_at__gt=now
    ).exclude(recent).update(next_run_at=now)


def _store(owner: Firm, name: str, declared: dict[str, Any]) -> None:
    now = database_now()
    rows = Schedule.objects.filter(firm=owner, name=name)
    row: Schedule | None = rows.first()
    if row is not None and row.shipped not in (None, declared):
        # Otherwise it is not locked, because somebody else may keep it locked for long.
        row = rows.select_for_update(no_key=True).first()
    if row is None:
        row = Schedule(firm=owner, name=name, shipped=declared, **declared)
        row.next_run_at = row.timetable().first_after(now)
        # Another worker that starts at the same time may have stored the row.
        Schedule.objects.bulk_create([row], ignore_conflicts=True)
        return
    if row.shipped in (None, declared):
        # The row is an operator's own schedule of this name, or nothing has changed.
        return
    untouched = {
        column: value
        for column, value in declared.items()
        if getattr(row, column) == row.shipped.get(column)
    }
    timing = {name: untouched[name] for name in TIMING & untouched.keys()}
    if any(getattr(row, name) != value for name, value in timing.items()):
        for name, value in timing.items():
            setattr(row, name, value)
        if not is_time_zone(row.time_zone):
            # It is an operator's, and another host may have it.
            return
        untouched["next_run_at"] = row.timetable().first_after(now)
    rows.update(**untouched, shipped=declared, updated_at=now)
