"""What waits in the queue for the end of a person's quiet hours."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from jobs.engine.clock import database_now
from jobs.errors import UnknownJob, WrongState
from jobs.models import JobQueue
from jobs.queue import edit
from jobs.states import Status
from tenants.audit import Actor

# The deliveries of reminders and of digests.
TYPES = ("reminder_delivery", "digest_delivery")
REASON = "The quiet hours are others now"


def ask_again(user_id: Any, by: Actor) -> None:
    """Have the deliveries that wait find out now whether the person still wants quiet.

    Else they wait for the end of quiet hours that nobody wants any more, or that are another zone's.
    Must run in the firm's scope.
    """
    waiting = JobQueue.objects.filter(
        user_id=user_id,
        job_type__in=TYPES,
        status=Status.PENDING,
        scheduled_at__gt=database_now(),
    )
    for job_id in waiting.order_by("pk").values_list("pk", flat=True):
        # A worker may have claimed it meanwhile: then it finds out by itself.
        with suppress(WrongState, UnknownJob):
            edit(job_id, run_now=True, by=by, reason=REASON)
