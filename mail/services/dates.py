"""Enqueues the jobs of rows that are due, once for each date, as it moves the row to its next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import structlog
from django.db.models import QuerySet

from jobs.engine.clock import database_now
from jobs.errors import EnqueueError, PayloadInvalid
from jobs.queue import EnqueueSpec, enqueue_many
from jobs.registry.timetable import TimetableInvalid
from mail.models.recurring import DatedRow
from tenants.models import Firm
from tenants.scope import firm_or_all, firm_scope

PAGE = 200

_log = structlog.get_logger("mail")


def enqueue_due_rows(
    due: Callable[[datetime], QuerySet[Any]],
    specs_of: Callable[[Any, datetime], list[EnqueueSpec]],
    *,
    checkpoint: Callable[[], None],
    firm: Firm | None = None,
) -> int:
    """Enqueue the jobs of the rows that `due` finds and move these on; return how many jobs.

    Without a firm, or with the system firm, it does so for every firm.

    If several dates have passed, only the last one gets jobs. A page's jobs and its rows' next
    dates are committed together, so that a kill loses and repeats nothing. A row whose dates cannot
    be computed (its time zone may have left the system's list), or whose jobs are refused, is
    logged and stays due.
    """
    enqueued = 0
    for firm_id in _firms_with_due(due, firm):
        skipped: list[Any] = []
        rows, jobs = _enqueue_page(firm_id, due, specs_of, skipped)
        while rows:
            enqueued += jobs
            checkpoint()
            rows, jobs = _enqueue_page(firm_id, due, specs_of, skipped)
    return enqueued


def _firms_with_due(due: Callable[[datetime], QuerySet[Any]], firm: Firm | None) -> list[int]:
    with firm_or_all(firm, "rows that are due"):
        found = due(database_now()).filter(firm__active=True)
        return sorted(set(found.values_list("firm_id", flat=True)))


def _enqueue_page(
    firm_id: int,
    due: Callable[[datetime], QuerySet[Any]],
    specs_of: Callable[[Any, datetime], list[EnqueueSpec]],
    skipped: list[Any],
) -> tuple[int, int]:
    """Return the number of rows and of jobs; add the rows that could not be moved to `skipped`."""
    with firm_scope(firm_id):
        now = database_now()
        found = due(now).exclude(pk__in=skipped).order_by("due_at", "pk")
        rows: list[Any] = list(
            found.select_for_update(of=("self",), no_key=True, skip_locked=True)[:PAGE]
        )
        slots = {row.pk: slot for row in rows if (slot := _slot_of(row, now)) is not None}
        specs = {row: specs_of(row, slots[row.pk]) for row in rows if row.pk in slots}
        made = _enqueue(firm_id, specs)
        skipped += [row.pk for row in rows if row not in made]
        if made:
            type(rows[0]).objects.bulk_update(made, ["due_at", "queued_at"])
    return len(rows), sum(made.values())


def _enqueue(firm_id: int, specs: Mapping[Any, list[EnqueueSpec]]) -> dict[Any, int]:
    """Enqueue the jobs of each row; return how many jobs each got, without the refused rows."""
    made: dict[Any, int] = {}
    try:
        results = iter(enqueue_many([one for many in specs.values() for one in many], firm=firm_id))
        return {row: sum(next(results).created for _ in many) for row, many in specs.items()}
    except EnqueueError as error:
        if len(specs) == 1:
            _log_refused(next(iter(specs)), error)
            return made
    # One by one, so that a refused row does not hold up the others.
    for row, many in specs.items():
        made |= _enqueue(firm_id, {row: many})
    return made


def _log_refused(row: DatedRow, error: EnqueueError) -> None:
    _log.error(
        "mail.due_jobs_refused",
        **_identity(row),
        error_code=error.code,
        fields=[fault.field for fault in error.faults] if isinstance(error, PayloadInvalid) else [],
    )


def _identity(row: DatedRow) -> dict[str, Any]:
    return {"table": row._meta.label, "row_id": str(row.pk), "firm_id": row.firm_id}


def _slot_of(row: DatedRow, now: datetime) -> datetime | None:
    """Move the row on and return the date that is due; None if its dates cannot be computed."""
    try:
        return _move_on(row, now)
    except TimetableInvalid as error:
        _log.error("mail.dates_not_computed", **_identity(row), field=error.field, error=str(error))
        return None


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
