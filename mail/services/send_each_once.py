"""Sends several things in one job, each of them once, even if others fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jobs.errors import Cancel, Fatal, HandlerError
from jobs.execution.context import JobContext


def send_each_once(ctx: JobContext, sendings: Mapping[str, Callable[[], object]]) -> None:
    """Send each thing by its name, once in the job's life, even if one before failed.

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
    # A temporary failure is raised first, because after a Fatal the job would not be retried.
    failures.sort(key=lambda error: isinstance(error, Fatal))
    if failures:
        raise failures[0]
