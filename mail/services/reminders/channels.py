"""Reaches a person by every channel they want, each of them once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
    failures: list[Exception] = []
    for channel, target in person.targets.items():
        try:
            ctx.step(channel.value, senders[channel], target)
        except (HandlerError, OSError) as error:
            if isinstance(error, Cancel):
                raise
            failures.append(error)
    # One that may work later goes first: with the other, nothing would be tried again.
    failures.sort(key=lambda error: isinstance(error, Fatal))
    if failures:
        raise failures[0]
