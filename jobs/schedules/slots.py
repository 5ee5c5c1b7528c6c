"""Schedules: which are due, and the move to their next slot.

A slot is run by whoever holds its row in the transaction that enqueues its jobs and moves the row
on. The move is guarded by the slot and goes forward alone, so no slot is run twice, whatever the
clock does; a transaction that is lost leaves the slot as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.utils import timezone

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch, reading, run
from jobs.models import Schedule
from jobs.schedules.cron import timetable_of


def anything_due(job_types: Sequence[str]) -> bool:
    """Say whether a schedule of these types is due."""
    return reading(lambda: bool(_due(job_types, 1, lock="")))


def take_due(job_types: Sequence[str], limit: int) -> list[tuple[Schedule, datetime]]:
    """Return due schedules and the database's time, most overdue first, locked.

    Those that others hold are left out, and those of inactive firms, and those whose types are
    not among `job_types`: newer code may know them. Must run inside `in_transaction`.
    """
    taken = _due(job_types, limit, lock=dialects.current().skip_locked)
    rows = Schedule.objects.unscoped("the engine's own look at what is due")
    schedules = rows.select_related("firm").in_bulk([schedule_id for schedule_id, _ in taken])
    return [(schedules[schedule_id], now) for schedule_id, now in taken]


def _due(job_types: Sequence[str], limit: int, *, lock: str) -> list[tuple[UUID, datetime]]:
    dialect = dialects.current()
    now = dialect.now_sql()
    found = fetch(
        f"""
        SELECT s.id, {now} FROM jobs_schedule s
        WHERE s.enabled AND s.next_run_at <= {now}
          AND s.job_type IN ({_marks(job_types)})
          AND EXISTS (SELECT 1 FROM tenants_firm f WHERE f.id = s.firm_id AND f.active)
        ORDER BY s.next_run_at LIMIT %s {lock}
        """,
        [*job_types, limit],
    )
    return [(dialect.read_uuid(row[0]), _time(row[1])) for row in found]


def move_on(
    schedule: Schedule, next_slot: datetime | None, *, ran: bool, error: str | None
) -> bool:
    """Go on to `next_slot`; None disables the schedule. False: somebody has moved it before.

    `error` replaces what stands there, None leaves it. Must run in the transaction that enqueued
    the slot's jobs.
    """
    dialect = dialects.current()
    now = dialect.now_sql()
    last_run = now if ran else "last_run_at"
    slot, following = (
        dialect.value(Column.TIME, moment)
        for moment in (schedule.next_run_at, next_slot or schedule.next_run_at)
    )
    # SQLite compares text, in which a whole second may be spelled without its fraction.
    moved = run(
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
    return moved == 1


def note_run(schedule: Schedule) -> None:
    """Note that the schedule was run out of turn, now. Must run inside `in_transaction`."""
    now = dialects.current().now_sql()
    run(
        f"UPDATE jobs_schedule SET last_run_at = {now}, last_error = '', updated_at = {now}"
        " WHERE id = %s",
        [dialects.current().value(Column.UUID, schedule.pk)],
    )


def note_unknown(job_types: Sequence[str], grace_seconds: float) -> int:
    """Say on due schedules of other types that no code knows them, once; return on how many.

    Newer code gets `grace_seconds` to run them first. Must run inside `in_transaction`.
    """
    dialect = dialects.current()
    now = dialect.now_sql()
    text = "No handler registered for job_type: "
    return run(
        f"""
        UPDATE jobs_schedule SET last_error = %s || job_type, updated_at = {now}
        WHERE enabled AND next_run_at <= {dialect.after_sql(now, "%s")}
          AND job_type NOT IN ({_marks(job_types)}) AND last_error <> %s || job_type
        """,
        [text, -grace_seconds, *job_types, text],
    )


def database_time() -> datetime:
    """Return the database's time. Must run inside `in_transaction` or `reading`."""
    return _time(fetch(f"SELECT {dialects.current().now_sql()}", [])[0][0])


def _marks(values: Sequence[str]) -> str:
    return ", ".join(["%s"] * len(values))


def _time(value: object) -> datetime:
    moment = dialects.current().read_time(value)
    if moment is None:
        raise RuntimeError("the database told no time")
    return moment


def set_first_slot(instance: Schedule, **_: object) -> None:
    """Give a schedule that is saved without a slot its first one; receives `pre_save`.

    Raises:
        TimetableInvalid: its cron expression, interval or zone cannot be read.
    """
    if getattr(instance, "next_run_at", None) is None:
        instance.next_run_at = timetable_of(instance).first_after(timezone.now())
