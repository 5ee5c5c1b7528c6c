"""Notifies a person by each channel that they want, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from jobs.execution.context import JobContext
from jobs.states import Channel
from mail.services.reminders.preferences import Addressee
from mail.services.send_each_once import send_each_once

LEFT = "the person is inactive, or no member of the firm any more"


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
