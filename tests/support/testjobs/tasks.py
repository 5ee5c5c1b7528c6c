"""Tasks of an installed app, which a worker finds by itself."""

from __future__ import annotations

from django_tasks import task


@task(queue_name="evening")
def letter(number: int) -> int:
    """Return the number, in the evening."""
    return number


@task
def note(number: int) -> int:
    """Return the number, at any time."""
    return number
