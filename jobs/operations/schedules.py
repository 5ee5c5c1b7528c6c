"""Schedules as people handle them: made, changed, run out of turn, paused and resumed.

Every act is written to the audit log; `by` is as in `jobs.operations.jobs`. Inside a tenant scope only
schedules in sight are found.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import IntegrityError, transaction
from uuid_utils.compat import uuid7

from jobs.engine.enqueue import firm_in_scope
from jobs.engine.lookup import in_sight
from jobs.engine.masks import mask_secrets
from jobs.engine.transactions import in_transaction
from jobs.errors import Fault, PayloadInvalid, ScheduleInvalid, UnknownJob, WrongState
from jobs.models import Schedule
from jobs.operations.schedule_checks import check_schedule
from jobs.schedules.cron import TimetableInvalid, timetable_of
from jobs.schedules.slots import database_time, note_run
from jobs.schedules.tick import enqueue_run
from jobs.states import MissedRuns, Priority, ScheduleTarget
from tenants.audit import Actor, as_actor, record_operation
from tenants.models import Firm
from tenants.scope import firm_scope

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    By = Actor | AbstractBaseUser | None

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
TIMING = frozenset({"cron", "interval_seconds", "time_zone"})


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
    priority: int = Priority.NORMAL,
    missed_runs: MissedRuns | str = MissedRuns.SKIP,
    by: By = None,
) -> Schedule:
    """Store a schedule; its first slot is the first one from now on.

    `firm` defaults as in `enqueue`. `payload` leaves out the envelope and what a group's members
    bring.

    Raises:
        ScheduleInvalid: it is refused; `errors` lists field, code and message of each fault.
        MissingTenant: no firm given, none in scope, and there are several.
    """
    schedule = Schedule(
        firm_id=firm_in_scope(firm),
        name=name,
        job_type=job_type,
        cron=cron,
        interval_seconds=interval_seconds,
        time_zone=time_zone,
        payload=dict(payload or {}),
        target=target,
        group_name=group_name,
        priority=priority,
        missed_runs=missed_runs,
    )

    def create() -> Schedule:
        check_schedule(schedule)
        schedule.next_run_at = timetable_of(schedule).first_after(database_time())
        _save(schedule)
        _record(schedule, "create", by, after=_content(schedule))
        return schedule

    return in_transaction(create, savepoint=True)


def change_schedule(
    schedule: Schedule | UUID | str, *, by: By = None, reason: str = "", **columns: Any
) -> Schedule:
    """Change some of `EDITABLE`. New timing starts with its first slot from now on.

    Raises:
        UnknownJob: no such schedule in sight.
        ScheduleInvalid: it is refused as it would be.
    """
    unknown = set(columns) - set(EDITABLE)
    if unknown:
        raise TypeError(f"a schedule's {', '.join(sorted(unknown))} cannot be changed")

    def change() -> Schedule:
        row = in_sight(Schedule, _id(schedule))
        before = _content(row)
        for column, value in columns.items():
            setattr(row, column, value)
        check_schedule(row)
        now = database_time()
        changed = {column for column in columns if before[column] != getattr(row, column)}
        if changed & TIMING:
            row.next_run_at = timetable_of(row).first_after(now)
        row.last_error, row.updated_at = "", now
        _save(row, *columns, "payload", "next_run_at", "last_error", "updated_at")
        _record(
            row,
            "change",
            by,
            reason=reason,
            before={column: before[column] for column in changed},
            after={column: getattr(row, column) for column in changed},
        )
        return row

    return in_transaction(change, savepoint=True)


def run_now(schedule: Schedule | UUID | str, *, by: By = None, reason: str = "") -> int:
    """Run the schedule once, out of turn, paused or not; return how many jobs that made.

    Its slots stay as they are.

    Raises:
        UnknownJob: no such schedule in sight.
        WrongState: its firm is not active, or its jobs are refused.
    """

    def run() -> int:
        row = in_sight(Schedule, _id(schedule))
        if not row.firm.active:
            raise WrongState(f"firm {row.firm.slug} is not active")
        try:
            jobs = enqueue_run(row, f"schedule:{row.pk}:run:{uuid7()}", correlation_id=None)
        except (PayloadInvalid, ValueError) as error:
            raise WrongState(f"schedule {row.name} leads to no job: {error}") from error
        note_run(row)
        _record(row, "run", by, reason=reason, after={"jobs": jobs})
        return jobs

    return in_transaction(run, savepoint=True)


def pause(schedule: Schedule | UUID | str, *, by: By = None, reason: str = "") -> Schedule:
    """Stop the schedule until it is resumed. Jobs that wait already stay.

    Raises:
        UnknownJob: no such schedule in sight.
        WrongState: it is paused.
    """
    return _set_enabled(schedule, False, by, reason)  # noqa: FBT003 - named by the two verbs


def resume(schedule: Schedule | UUID | str, *, by: By = None, reason: str = "") -> Schedule:
    """Let the schedule run again. Slots that passed meanwhile are not made up for.

    Raises:
        UnknownJob: no such schedule in sight.
        WrongState: it is not paused, or its timetable cannot be read.
    """
    return _set_enabled(schedule, True, by, reason)  # noqa: FBT003 - named by the two verbs


def _set_enabled(schedule: Schedule | UUID | str, enabled: bool, by: By, reason: str) -> Schedule:
    def switch() -> Schedule:
        row = in_sight(Schedule, _id(schedule))
        if row.enabled == enabled:
            raise WrongState(f"schedule {row.name} is {'running' if enabled else 'paused'} already")
        now = database_time()
        if enabled and row.next_run_at <= now:
            # Only forward: a slot that ran once lies before the one it stopped at.
            row.next_run_at = _first_after(row, now)
        row.enabled, row.updated_at = enabled, now
        _save(row, "enabled", "next_run_at", "updated_at")
        _record(row, "resume" if enabled else "pause", by, reason=reason)
        return row

    return in_transaction(switch, savepoint=True)


def _first_after(row: Schedule, now: datetime) -> datetime:
    try:
        return timetable_of(row).first_after(now, anchor=row.next_run_at)
    except TimetableInvalid as error:
        raise WrongState(f"schedule {row.name} cannot be planned: {error}") from error


def _save(row: Schedule, *columns: str) -> None:
    """Store the row, or these columns of it, in its firm's scope.

    Raises:
        ScheduleInvalid: the firm has another schedule of this name.
    """
    try:
        with transaction.atomic(), firm_scope(row.firm_id):
            row.save(update_fields=columns or None)
    except IntegrityError as error:
        # PostgreSQL names the constraint, SQLite its columns.
        if not any(word in str(error) for word in ("schedule_name_once", "jobs_schedule.name")):
            raise
        message = "another schedule of the firm has this name"
        raise ScheduleInvalid([Fault("name", "taken", message)]) from error


def _record(
    row: Schedule,
    act: str,
    by: By,
    *,
    reason: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    record_operation(
        as_actor(by),
        f"schedule.{act}",
        firm_id=row.firm_id,
        target=("schedule", row.pk),
        reason=reason,
        before=mask_secrets(before or {}),
        after=mask_secrets(after or {}),
    )


def _content(row: Schedule) -> dict[str, Any]:
    return {column: getattr(row, column) for column in EDITABLE}


def _id(schedule: Schedule | UUID | str) -> UUID:
    if isinstance(schedule, Schedule):
        return UUID(str(schedule.pk))
    try:
        return UUID(str(schedule))
    except ValueError as error:
        raise UnknownJob(f"{str(schedule)[:64]!r} is not an id") from error
