"""Reaches a person by every channel they want, each of them once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from jobs.errors import Cancel, Fatal, HandlerError
from jobs.execution.context import JobContext
from jobs.states import Channel
from mail.services.reminders.preferences import Addressee

LEFT = "the person is inactive, or no member of the firm any more"


def send_by_every_channel(
    ctx: JobContext, person: Addressee, senders: Mapping[Channel, Callable[[str], None]]
) -> None:
    """Give each channel's sender its target, also where one before failed.

    A channel that took it is not used again in a later attempt of the job.

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
