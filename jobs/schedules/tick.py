"""Runs due schedules: turns a slot into jobs, exactly once.

A slot's jobs are enqueued in the transaction that locks the schedule's row and advances it to its
next slot. The row only goes forward, so no slot runs twice, whatever the clock does. If the
transaction is rolled back, the slot is still due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from uuid import UUID

from django.db import DatabaseError, transaction

from interfaces.redaction import redact
from jobs import registry
from jobs.engine import dialects
from jobs.engine.clock import database_now
from jobs.engine.dialects import LOCK_TIMEOUT_MILLISECONDS, Column
from jobs.engine.enqueue import enqueue_for_firms
from jobs.engine.new_job import EnqueueSpec
from jobs.engine.schedule_runs import RunJobs, record_run
from jobs.engine.transactions import (
    LockTimeout,
    fetch,
    in_transaction,
    reading,
    run,
    transaction_survives,
)
from jobs.errors import Fault, PayloadInvalid
from jobs.models import Schedule
from jobs.registry.timetable import TimetableInvalid
from jobs.schedules.groups import GroupRequest, Member, find_group
from jobs.schedules.left import missing_zones, placeholders
from jobs.states import MissedRuns, ScheduleTarget
from tenants.models import SYSTEM_SLUG, Firm
from tenants.scope import all_firms

# A slot that is no later than this runs even if the schedule skips missed runs.
GRACE_SECONDS = 60.0
# The most schedules in one transaction, and the most members of a group in one batch of jobs.
BATCH = 20
PAGE = 500
MAX_ERROR_LENGTH = 1000


@dataclass(frozen=True)
class SlotResult:
    """The slot of a due schedule, and how many jobs it created (None: it was skipped)."""

    schedule_id: str
    job_type: str
    slot: datetime | None
    jobs: int | None = None
    error: str = ""


def tick(
    job_types: Sequence[str] | None = None, on_missing_zone: Callable[[str], None] | None = None
) -> list[SlotResult]:
    """Run up to a batch of due schedules (of these types, or all); workers may do so concurrently.

    Schedules in a time zone that this host lacks are left to other hosts; `on_missing_zone` is
    called with the zone. One whose jobs have a key that another transaction is enqueueing is left
    to the next tick, because the scheduler must not wait for a caller's transaction.

    Raises:
        DatabaseError: nothing happened; the next tick finds the same schedules due.
    """
    known = job_types or [declared.name for declared in registry.all_types()]
    if not known or not reading(lambda: _due(known, 1, lock="")):
        return []
    missing = reading(lambda: missing_zones(known))
    if on_missing_zone is not None:
        for zone in missing:
            on_missing_zone(zone)
    results = in_transaction(
        lambda: [_run(row, now) for row, now in lock_due(known, BATCH, missing)],
        lock_timeout_ms=LOCK_TIMEOUT_MILLISECONDS,
    )
    return [result for result in results if result is not None]


def lock_due(
    job_types: Sequence[str], limit: int, without_zones: Sequence[str] = ()
) -> list[tuple[Schedule, datetime]]:
    """Return due schedules and the database's time, most overdue first, locked.

    It leaves out schedules that other transactions have locked, those of inactive firms, those in
    one of `without_zones`, and those whose types are not in `job_types`: newer code may know them.
    Must run inside `in_transaction`.
    """
    due = _due(job_types, limit, lock=dialects.current().skip_locked, without_zones=without_zones)
    rows = Schedule.objects.unscoped("due schedules of all firms")
    schedules = rows.select_related("firm").in_bulk([schedule_id for schedule_id, _ in due])
    return [(schedules[schedule_id], now) for schedule_id, now in due]


def advance(
    schedule: Schedule, next_slot: datetime | None, *, ran: bool, error: str | None
) -> bool:
    """Advance to `next_slot`, or disable the schedule if None; False if it was advanced before.

    `error` replaces the stored one, None keeps it. Must run in the transaction that enqueued the
    slot's jobs.
    """
    dialect = dialects.current()
    now = dialect.now_sql()
    last_run = now if ran else "last_run_at"
    slot, following = (
        dialect.value(Column.TIME, moment)
        for moment in (schedule.next_run_at, next_slot or schedule.next_run_at)
    )
    # Not "=", because SQLite compares texts, and may store a whole second without its fraction.
    advanced = run(
        f"""
        UPDATE jobs_schedule
        SET next_run_at = %s, enabled = %s, last_run_at = {last_run},
            last_error = COALESCE(%s, last_error), updated_at = {now}
        WHERE id = %s AND enabled AND next_run_at <= %s
        """,
        [
            following,
            dialect.value(Column.BOOLEAN, next_slot is not None),
            error,
            dialect.value(Column.UUID, schedule.pk),
            slot,
        ],
    )
    return advanced == 1


def set_first_slot(instance: Schedule, **_: object) -> None:
    """Give a schedule that is saved without a slot its first one; receives `pre_save`.

    Raises:
        TimetableInvalid: its cron expression, interval or zone cannot be read.
    """
    if getattr(instance, "next_run_at", None) is None:
        instance.next_run_at = instance.timetable().first_after(database_now())


def slot_key(schedule: Schedule, slot: datetime) -> str:
    """Return the slot's name: its jobs' correlation id, and the start of their keys."""
    return f"schedule:{schedule.pk}:{slot.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def enqueue_run(
    schedule: Schedule, key: str, *, correlation_id: str, slot: datetime | None = None
) -> int:
    """Enqueue one job for each member that the schedule addresses; return how many were created.

    The run is recorded, without a slot if somebody runs the schedule out of turn.

    Raises:
        PayloadInvalid: the type refuses the payload of a member.
        ValueError: the group is unknown here, or names another firm's members.
    """
    if not isinstance(schedule.payload, Mapping):
        fault = Fault("payload", "wrong_type", "must be an object")
        raise PayloadInvalid(schedule.job_type, [fault])
    created = RunJobs()
    with all_firms("a schedule of the system firm reaches every firm"):
        members = _members(schedule)
        while page := list(islice(members, PAGE)):
            results = enqueue_for_firms(
                [
                    (member.firm_id, _spec(schedule, member, key, correlation_id))
                    for member in _of_active_firms(page)
                ]
            )
            created.add(results)
    record_run(schedule, slot, correlation_id, created)
    return created.count


def _run(schedule: Schedule, now: datetime) -> SlotResult | None:
    """Run or skip the schedule's last due slot, and advance it; None if that is not possible now."""
    try:
        timetable = schedule.timetable()
        slot = timetable.latest(schedule.next_run_at, now)
        following = timetable.first_after(now, anchor=slot)
    except TimetableInvalid as invalid:
        if invalid.field == "time_zone":
            # It came to be due since the missing zones were read.
            return None
        # Disabled until somebody corrects the timetable, because no host can compute its next slot.
        advance(schedule, None, ran=False, error=f"{invalid.field}: {invalid}")
        return SlotResult(str(schedule.pk), schedule.job_type, None, error=str(invalid))
    late = (now - slot).total_seconds()
    if schedule.missed_runs == MissedRuns.SKIP and late > GRACE_SECONDS:
        advance(schedule, following, ran=False, error=None)
        record_run(schedule, slot, slot_key(schedule, slot), None)
        return SlotResult(str(schedule.pk), schedule.job_type, slot)
    try:
        jobs, error = _enqueue_slot(schedule, slot)
    except LockTimeout:
        return None
    if not advance(schedule, following, ran=not error, error=error):
        raise RuntimeError(f"schedule {schedule.pk} was advanced by somebody who had not locked it")
    return SlotResult(str(schedule.pk), schedule.job_type, slot, jobs, error)


def _due(
    job_types: Sequence[str], limit: int, *, lock: str, without_zones: Sequence[str] = ()
) -> list[tuple[UUID, Any]]:
    dialect = dialects.current()
    now = dialect.now_sql()
    zones = f"AND s.time_zone NOT IN ({placeholders(without_zones)})" if without_zones else ""
    found = fetch(
        f"""
        SELECT s.id, {now} FROM jobs_schedule s
        WHERE s.enabled AND s.next_run_at <= {now}
          AND s.job_type IN ({placeholders(job_types)}) {zones}
          AND EXISTS (SELECT 1 FROM tenants_firm f WHERE f.id = s.firm_id AND f.active)
        ORDER BY s.next_run_at LIMIT %s {lock}
        """,
        [*job_types, *without_zones, limit],
    )
    return [(dialect.read_uuid(row[0]), dialect.read_time(row[1])) for row in found]


def _enqueue_slot(schedule: Schedule, slot: datetime) -> tuple[int, str]:
    """Return how many jobs the slot created, and the error if it failed.

    Raises:
        LockTimeout: another transaction is enqueueing a job with a key of one of these.
    """
    key = slot_key(schedule, slot)
    try:
        with transaction.atomic():
            return enqueue_run(schedule, key, correlation_id=key, slot=slot), ""
    except Exception as error:
        # A group's function may raise anything; the other schedules must still run.
        if isinstance(error, DatabaseError):
            if dialects.current().is_lock_timeout(error):
                raise LockTimeout from error
            if not transaction_survives(error):
                raise
        text = redact(f"{type(error).__name__}: {error}", MAX_ERROR_LENGTH)
        record_run(schedule, slot, key, RunJobs(), error=text)
        return 0, text


def _members(schedule: Schedule) -> Iterator[Member]:
    own = None if schedule.firm.is_system else schedule.firm_id
    match ScheduleTarget(schedule.target):
        case ScheduleTarget.FIRM:
            yield Member(schedule.firm_id, key="")
        case ScheduleTarget.EVERY_FIRM:
            yield from _firms() if own is None else ()
        case ScheduleTarget.EVERY_MEMBER:
            group = find_group(schedule.group_name)
            if group is None:
                raise ValueError(f"the group {schedule.group_name!r} is not registered here")
            for member in group.resolver(GroupRequest(own, schedule.job_type, schedule.payload)):
                if own is not None and member.firm_id != own:
                    raise ValueError(f"group {group.name} returned a member of another firm")
                yield member


def _firms() -> Iterator[Member]:
    """Return every firm but the system firm, in pages."""
    last = 0
    firms = Firm.objects.exclude(slug=SYSTEM_SLUG).order_by("pk")
    while ids := list(firms.filter(pk__gt=last).values_list("pk", flat=True)[:PAGE]):
        yield from (Member(pk, key=str(pk)) for pk in ids)
        last = ids[-1]


def _of_active_firms(page: list[Member]) -> list[Member]:
    firms = {member.firm_id for member in page}
    active = set(Firm.objects.filter(pk__in=firms, active=True).values_list("pk", flat=True))
    return [member for member in page if member.firm_id in active]


def _spec(schedule: Schedule, member: Member, key: str, correlation_id: str) -> EnqueueSpec:
    own_key = f"{key}:{member.key}" if member.key else key
    return EnqueueSpec(
        schedule.job_type,
        {**schedule.payload, **member.payload},
        priority=schedule.priority,
        idempotency_key=member.idempotency_key or own_key,
        correlation_id=correlation_id,
    )
