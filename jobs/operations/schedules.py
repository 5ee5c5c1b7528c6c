"""Operations on schedules: create, change, run out of turn, pause, resume."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from uuid_utils.compat import uuid7

from interfaces.correlation import current_correlation_id, new_correlation_id
from jobs import registry
from jobs.engine.clock import database_now
from jobs.engine.enqueue import firm_in_scope
from jobs.engine.redaction import redact_secrets
from jobs.errors import Fault, PayloadInvalid, ScheduleInvalid, WrongState
from jobs.models import Schedule
from jobs.operations.operation import By, audit, get_for_update, operation
from jobs.operations.schedule_faults import schedule_faults
from jobs.payload_validator import encode_payload
from jobs.registry.timetable import TimetableInvalid
from jobs.schedules.tick import enqueue_run
from jobs.states import MissedRuns, Priority, ScheduleTarget
from tenants.models import Firm
from tenants.scope import firm_scope

# What a person may change; the rest is bookkeeping.
EDITABLE = (
    "name",
    "target",
    "group_name",
    "cron",
    "interval_seconds",
    "time_zone",
    "job_type",
    "payload",
    "priority",
    "missed_runs",
)
# From this distance between slots on, a missed one is run by default. 23 hours, because a day is
# that short when the clocks go forward.
RARE = timedelta(hours=23)
TIMING = frozenset({"cron", "interval_seconds", "time_zone"})


@operation
def create_schedule(
    name: str,
    job_type: str,
    *,
    firm: Firm | int | None = None,
    cron: str | None = None,
    interval_seconds: int | None = None,
    time_zone: str = "UTC",
    payload: Mapping[str, Any] | None = None,
    target: ScheduleTarget | str = ScheduleTarget.FIRM,
    group_name: str = "",
    priority: int | None = None,
    missed_runs: MissedRuns | str | None = None,
    by: By = None,
) -> Schedule:
    """Store a schedule; its first slot is the next one from now.

    `firm` defaults as in `enqueue`. `payload` leaves out the envelope and the fields that the
    members of a group supply; `priority` is the type's unless given. `missed_runs` is to run once for schedules of a day or rarer, otherwise to skip.

    Raises:
        ScheduleInvalid: the schedule is refused; `errors` lists field, code, message of each fault.
        MissingTenant: no firm given, none in scope, and there are several.
    """
    if faults := registry.name_faults(job_type):
        raise ScheduleInvalid(faults)
    schedule = Schedule(
        firm_id=firm_in_scope(firm, "create_schedule"),
        name=name,
        job_type=job_type,
        cron=cron,
        interval_seconds=interval_seconds,
        time_zone=time_zone,
        payload={} if payload is None else payload,
        target=target,
        group_name=group_name,
        priority=_priority_of(job_type) if priority is None else priority,
        missed_runs=MissedRuns.SKIP if missed_runs is None else missed_runs,
    )
    _check(schedule)
    timetable = schedule.timetable()
    schedule.next_run_at = timetable.first_after(database_now())
    following = timetable.first_after(schedule.next_run_at, anchor=schedule.next_run_at)
    if missed_runs is None and following - schedule.next_run_at >= RARE:
        schedule.missed_runs = MissedRuns.RUN_ONCE
    _save(schedule)
    audit("schedule.create", schedule, by, after=redact_secrets(_columns(schedule)))
    return schedule


@operation
def change_schedule(
    schedule: Schedule | UUID | str, *, by: By = None, reason: str = "", **columns: Any
) -> Schedule:
    """Change some of the `EDITABLE` columns. A new timetable begins with its first slot from now.

    Raises:
        UnknownJob: no such schedule in scope.
        ScheduleInvalid: the changed schedule is refused.
    """
    unknown = set(columns) - set(EDITABLE)
    if unknown:
        raise TypeError(
            f"these fields of a schedule cannot be changed: {', '.join(sorted(unknown))}"
        )
    row = get_for_update(Schedule, schedule)
    before = _columns(row)
    for column, value in columns.items():
        setattr(row, column, value)
    _check(row)
    now = database_now()
    changed = {column for column in columns if before[column] != getattr(row, column)}
    if changed & TIMING:
        row.next_run_at = row.timetable().first_after(now)
    row.last_error, row.updated_at = "", now
    _save(row, *columns, "payload", "next_run_at", "last_error", "updated_at")
    audit(
        "schedule.change",
        row,
        by,
        reason,
        before=redact_secrets({column: before[column] for column in changed}),
        after=redact_secrets({column: getattr(row, column) for column in changed}),
    )
    return row


@operation
def run_now(schedule: Schedule | UUID | str, *, by: By = None, reason: str = "") -> int:
    """Run the schedule once now, even if it is paused; return the number of new jobs.

    Its slots do not change.

    Raises:
        UnknownJob: no such schedule in scope.
        WrongState: its firm is not active, or its jobs are refused.
    """
    row = get_for_update(Schedule, schedule)
    if not row.firm.active:
        raise WrongState(f"firm {row.firm.slug} is not active")
    try:
        correlation_id = current_correlation_id() or new_correlation_id()
        key = f"schedule:{row.pk}:run:{uuid7()}"
        jobs = enqueue_run(row, key, correlation_id=correlation_id)
    except (PayloadInvalid, ValueError) as error:
        raise WrongState(f"schedule {row.name} enqueued no job: {error}") from error
    row.last_run_at = row.updated_at = database_now()
    row.last_error = ""
    _save(row, "last_run_at", "last_error", "updated_at")
    audit("schedule.run", row, by, reason, after={"jobs": jobs})
    return jobs


@operation
def pause(schedule: Schedule | UUID | str, *, by: By = None, reason: str = "") -> Schedule:
    """Stop the schedule until it is resumed. Jobs that already wait stay.

    Raises:
        UnknownJob: no such schedule in scope.
        WrongState: it is paused.
    """
    row = get_for_update(Schedule, schedule)
    if not row.enabled:
        raise WrongState(f"schedule {row.name} is paused already")
    row.enabled, row.updated_at = False, database_now()
    _save(row, "enabled", "updated_at")
    audit("schedule.pause", row, by, reason, before={"enabled": True}, after={"enabled": False})
    return row


@operation
def resume(schedule: Schedule | UUID | str, *, by: By = None, reason: str = "") -> Schedule:
    """Let the schedule run again. The slots it missed are not run.

    Raises:
        UnknownJob: no such schedule in scope.
        WrongState: it is not paused, or its timetable cannot be used; the message names the field.
    """
    row = get_for_update(Schedule, schedule)
    if row.enabled:
        raise WrongState(f"schedule {row.name} is not paused")
    now = database_now()
    try:
        # Also if the next slot is still to come, because no later one could be computed.
        timetable = row.timetable()
        if row.next_run_at <= now:
            # The next slot only moves forward, because an earlier one has run.
            row.next_run_at = timetable.first_after(now, anchor=row.next_run_at)
    except TimetableInvalid as invalid:
        raise WrongState(
            f"schedule {row.name} cannot be resumed: {invalid.field}: {invalid}"
        ) from invalid
    row.enabled, row.updated_at = True, now
    _save(row, "enabled", "next_run_at", "updated_at")
    audit("schedule.resume", row, by, reason, before={"enabled": False}, after={"enabled": True})
    return row


def _priority_of(job_type: str) -> int:
    declared = registry.find(job_type)
    return Priority.NORMAL if declared is None or declared.priority is None else declared.priority


def _columns(row: Schedule) -> dict[str, Any]:
    return {column: getattr(row, column) for column in EDITABLE}


def _save(row: Schedule, *columns: str) -> None:
    """Store the row, or these columns of it, in its firm's scope."""
    try:
        with transaction.atomic(), firm_scope(row.firm_id):
            row.save(update_fields=columns or None)
    except IntegrityError as error:
        # PostgreSQL names the constraint, SQLite its columns.
        if not any(word in str(error) for word in ("schedule_name_once", "jobs_schedule.name")):
            raise
        message = "another schedule of the firm has this name"
        raise ScheduleInvalid([Fault("name", "taken", message)]) from error


def _check(row: Schedule) -> None:
    """Check the schedule, and give its payload the form that is stored, with its version."""
    if faults := schedule_faults(row):
        raise ScheduleInvalid(faults)
    # The version is stored so that a later one of the type can upgrade the payload, as with jobs.
    declared = registry.get(row.job_type)
    row.payload = {"version": declared.version, **json.loads(encode_payload(declared, row.payload))}
