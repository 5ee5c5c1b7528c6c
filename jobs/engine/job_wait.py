"""Reads a job by its id, whatever the scope, and waits until it is settled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from threading import Event
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import connection

from jobs.engine.current_job import current_job, in_event_loop
from jobs.engine.transactions import reading
from jobs.engine.wakeup import on_settled
from jobs.errors import ArgumentsInvalid, Fault, NotSettled, UnknownJob, WrongPlace
from jobs.models import Attempt, JobQueue
from jobs.states import TERMINAL, Priority

FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 1.0
GROWTH = 1.5


def wait_until_settled(job_id: UUID, timeout: float) -> JobQueue:
    """Return the job's row once it is settled; `timeout` is in seconds.

    Raises:
        ArgumentsInvalid: `timeout` is no number.
        NotSettled: the job was not settled within `timeout`.
        WrongPlace: in a handler, a transaction or a coroutine.
    """
    if in_event_loop():
        raise WrongPlace("this would block the event loop: use await result.wait_async(…)")
    _refuse_in_handler()
    settled_here = Event()
    with on_settled(job_id, settled_here.set):
        for pause in _pauses(job_id, timeout):
            settled_here.clear()
            job = _read_if_settled(job_id)
            if job is not None:
                return job
            settled_here.wait(pause)
    raise AssertionError("unreachable: _pauses() ends with an error")


async def wait_until_settled_async(job_id: UUID, timeout: float) -> JobQueue:
    """Return the job's row once it is settled; as `wait_until_settled`."""
    _refuse_in_handler()
    settled_here, loop = asyncio.Event(), asyncio.get_running_loop()
    with on_settled(job_id, lambda: loop.call_soon_threadsafe(settled_here.set)):
        for pause in _pauses(job_id, timeout):
            settled_here.clear()
            job = await sync_to_async(_read_if_settled)(job_id)
            if job is not None:
                return job
            with suppress(TimeoutError):
                await asyncio.wait_for(settled_here.wait(), pause)
    raise AssertionError("unreachable: _pauses() ends with an error")


def priority_of(job_id: UUID) -> int:
    """Return the job's priority; normal when it is gone."""
    rows = JobQueue.objects.unscoped("the queue reads a job by its id").filter(pk=job_id)
    found = reading(lambda: list(rows.values_list("priority", flat=True)))
    return int(found[0]) if found else Priority.NORMAL


def _pauses(job_id: UUID, timeout: float) -> Iterator[float]:
    """Yield the seconds to pause after each query.

    Raises:
        ArgumentsInvalid: `timeout` is no number.
        NotSettled: the time is over.
    """
    _require_number(timeout)
    deadline = time.monotonic() + timeout
    pause = FIRST_PAUSE_SECONDS
    left = timeout
    while left > 0:
        yield min(pause, left)
        pause = min(pause * GROWTH, LONGEST_PAUSE_SECONDS)
        left = deadline - time.monotonic()
    yield 0.0
    raise NotSettled(
        f"job {job_id} was not settled within {timeout:g} s:"
        f" manage.py jobs why {job_id} says what it waits for"
    )


def _require_number(timeout: object) -> None:
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or timeout != timeout:  # NaN
        raise ArgumentsInvalid([Fault("timeout", "wrong_type", "must be a number of seconds")])


def _read_if_settled(job_id: UUID) -> JobQueue | None:
    """Return the job if it is settled."""
    job = read_job(job_id)
    if job.status in TERMINAL:
        return job
    if connection.in_atomic_block:
        raise WrongPlace(
            "inside a transaction the job's change cannot be seen: wait after the commit"
        )
    return None


def _refuse_in_handler() -> None:
    if current_job() is not None:
        raise WrongPlace(
            "a handler that waits occupies a worker: use ctx.enqueue_many(…, then=…) instead"
        )


def read_job(job_id: UUID) -> JobQueue:
    """Return the row of a job whose id the caller was just given by the engine.

    Raises:
        UnknownJob: the job is deleted; its idempotency key may outlive it.
    """
    rows = JobQueue.objects.unscoped("an id just given by the engine")
    row: JobQueue | None = reading(lambda: rows.filter(pk=job_id).first())
    if row is None:
        raise UnknownJob(f"job {job_id} is deleted")
    return row


def read_with_attempts(job_id: UUID) -> tuple[JobQueue, list[Attempt]]:
    """Return a job, whatever the scope, with its attempts in order; the caller checks the firm.

    Raises:
        JobQueue.DoesNotExist: there is none.
    """

    def read() -> tuple[JobQueue, list[Attempt]]:
        job = JobQueue.objects.unscoped("the caller checks the firm").get(pk=job_id)
        attempts = Attempt.objects.unscoped("of that job").filter(job_id=job_id)
        return job, list(attempts.order_by("ended_at", "id"))

    return reading(read)
