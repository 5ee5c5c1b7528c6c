"""Puts rows that are due into the queue: once for each date, in the transaction that moves the row on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from jobs.engine.clock import database_now
from jobs.queue import EnqueueSpec, enqueue_many
from mail.models.recurring import DatedRow
from tenants.scope import all_firms, firm_scope

PAGE = 200


def enqueue_due_rows(
    due: Callable[[datetime], QuerySet[Any]],
    specs_of: Callable[[Any, datetime], list[EnqueueSpec]],
    *,
    checkpoint: Callable[[], None],
) -> int:
    """Enqueue the jobs of each row that `due` finds, and move it to its next date; return how many.

    Of several dates that passed, the last one gets the jobs. A kill in between loses and repeats
    nothing: a page's jobs and its rows' next dates are committed together.
    """
    enqueued = 0
    for firm_id in _firms_with_due(due):
        rows, jobs = _enqueue_page(firm_id, due, specs_of)
        while rows:
            enqueued += jobs
            checkpoint()
            rows, jobs = _enqueue_page(firm_id, due, specs_of)
    return enqueued


def _firms_with_due(due: Callable[[datetime], QuerySet[Any]]) -> list[int]:
    with all_firms("rows that are due"):
        found = due(database_now()).filter(firm__active=True)
        return sorted(set(found.values_list("firm_id", flat=True)))


def _enqueue_page(
    firm_id: int,
    due: Callable[[datetime], QuerySet[Any]],
    specs_of: Callable[[Any, datetime], list[EnqueueSpec]],
) -> tuple[int, int]:
    """Return how many rows were moved on, and how many jobs they made."""
    with firm_scope(firm_id):
        now = database_now()
        found = due(now).order_by("due_at", "pk").select_for_update(of=("self",), skip_locked=True)
        rows: list[Any] = list(found[:PAGE])
        slots = [_move_on(row, now) for row in rows]
        specs = [
            spec for row, slot in zip(rows, slots, strict=True) for spec in specs_of(row, slot)
        ]
        made = [result for result in enqueue_many(specs, firm=firm_id) if result.created]
        if rows:
            type(rows[0]).objects.bulk_update(rows, ["due_at", "queued_at"])
    return len(rows), len(made)


def _move_on(row: DatedRow, now: datetime) -> datetime:
    """Set the row to its first date after `now`, and return the one that is due."""
    if row.due_at is None:
        raise RuntimeError(f"{row._meta.label} {row.pk} is not due")
    timetable = row.timetable
    slot = row.due_at
    if timetable is not None:
        slot = timetable.latest(row.due_at, now)
    row.due_at = None if timetable is None else timetable.first_after(now, anchor=slot)
    row.queued_at = slot
    return slot
