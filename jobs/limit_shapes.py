"""Pauses as the command line and REST show them."""

from __future__ import annotations

from typing import TypedDict

from jobs.models import Pause
from jobs.shapes import iso


class PauseRow(TypedDict):
    """A pause; `firm` is None where it holds everywhere."""

    id: str
    firm: str | None
    everywhere: bool
    category: str | None
    job_type: str | None
    reason: str
    paused_by: str
    created_at: str | None
    until: str | None


def pause_row(pause: Pause) -> PauseRow:
    """Return a pause; select its firm along with it."""
    return PauseRow(
        id=str(pause.pk),
        firm=None if pause.everywhere else pause.firm.slug,
        everywhere=pause.everywhere,
        category=pause.category or None,
        job_type=pause.job_type or None,
        reason=pause.reason,
        paused_by=pause.paused_by,
        created_at=iso(pause.created_at),
        until=iso(pause.until),
    )
