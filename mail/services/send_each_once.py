"""Sends several things in one job, each of them once, even if others fail: also by each channel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from jobs.errors import Cancel, Fatal, HandlerError
from jobs.execution.context import JobContext
from jobs.states import Channel
from mail.services.reminders.preferences import Addressee

LEFT = "the person is inactive, or no member of the firm any more"


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


def send_by_every_channel(
    ctx: JobContext, person: Addressee, senders: Mapping[Channel, Callable[[str], None]]
) -> None:
    """Call each channel's sender with its target, even if one before failed.

    A channel that has sent it is not used again in a later attempt of the job.

    Raises:
        HandlerError, OSError: the first failure.
    """
    send_each_once(
        ctx,
        {
            channel.value: partial(senders[channel], target)
            for channel, target in person.targets.items()
        },
    )
