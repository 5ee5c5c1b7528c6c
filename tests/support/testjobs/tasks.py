"""Tasks of an installed app, which a worker finds without an import."""

from __future__ import annotations

from django_tasks import task


@task(queue_name="evening")
def letter(number: int) -> int:
    """Return the number; on the queue `evening`."""
    return number


@task
def note(number: int) -> int:
    """Return the number; on the default queue."""
    return number
