"""Runs deliveries that wait for the end of a person's quiet hours, when these are changed."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from jobs.engine.clock import database_now
from jobs.errors import UnknownJob, WrongState
from jobs.models import JobQueue
from jobs.queue import edit
from jobs.states import Status
from tenants.audit import Actor

# The job types of deliveries: reminders and digests.
TYPES = ("reminder_delivery", "digest_delivery")
REASON = "The quiet hours were changed"


def recheck_waiting(user_id: Any, by: Actor) -> None:
    """Run the person's waiting deliveries now, so that they check the quiet hours again.

    Otherwise they would wait for the end of the former quiet hours. Must run in the firm's scope.
    """
    waiting = JobQueue.objects.filter(
        user_id=user_id,
        job_type__in=TYPES,
        status=Status.PENDING,
        scheduled_at__gt=database_now(),
    )
    # Of several dates of a reminder, which share its lock, the first that comes counts for all.
    jobs = {lock or pk: pk for pk, lock in waiting.order_by("-pk").values_list("pk", "lock_key")}
    for job_id in sorted(jobs.values()):
        # A worker may have claimed the job meanwhile; then the job checks them by itself.
        with suppress(WrongState, UnknownJob):
            edit(job_id, run_now=True, by=by, reason=REASON)
