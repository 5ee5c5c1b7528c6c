"""Sends several things in one job, each of them once, whichever fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jobs.errors import Cancel, Fatal, HandlerError
from jobs.execution.context import JobContext


def send_each_once(ctx: JobContext, sendings: Mapping[str, Callable[[], None]]) -> None:
    """Send each by its name, also where one before failed, once in the job's life.

    Raises:
        HandlerError, OSError: the first failure.
    """
    failures: list[Exception] = []
    for name, send in sendings.items():
        try:
            ctx.step(name, send)
        except (HandlerError, OSError) as error:
            if isinstance(error, Cancel):
                raise
            failures.append(error)
    # One that may work later goes first: with the other, nothing would be tried again.
    failures.sort(key=lambda error: isinstance(error, Fatal))
    if failures:
        raise failures[0]
