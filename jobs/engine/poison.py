"""When a job that kills its process has had its chances."""

from __future__ import annotations

from jobs.states import DeadReason

DEADLY = 3


def is_suspect(deaths: int) -> bool:
    """Say whether a job with so many deaths runs alone, in a process of its own.

    One death proves nothing: whatever ran beside it may have been the cause.
    """
    return deaths >= 1


def end_by_death(*, deaths: int, attempts: int, max_attempts: int) -> DeadReason | None:
    """Return why another death is the last; None while the job goes round again.

    `deaths` counts those before this one, `attempts` those used with it.
    """
    if deaths + 1 >= DEADLY:
        return DeadReason.POISON
    return DeadReason.STALE if attempts >= max_attempts else None
