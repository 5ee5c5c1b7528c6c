"""Handlers that take too long, or that somebody asks to stop."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from jobs.context import JobContext
from jobs.queue import cancel, enqueue
from jobs.registry import JobPayload, job
from jobs.retry import RetryPolicy
from jobs.states import DeadReason, Status
from jobs.worker import pool
from jobs.worker.loop import WorkerLoop
from jobs.worker.options import WorkerOptions
from tenants.models import Firm
from tests.queue_kit import dead_letters, row

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("job_types")]

ONCE = RetryPolicy(max_attempts=1)


class EmptyPayload(JobPayload):
    """Nothing but the envelope."""


def declare(handler: Any, **options: Any) -> None:
    job("test.long", category="sync", payload=EmptyPayload, retry=ONCE, **options)(handler)


def burst() -> WorkerLoop:
    return WorkerLoop(
        WorkerOptions(concurrency=1, poll_seconds=0.05, grace_seconds=0.2, burst=True)
    )


@pytest.mark.req("J-14", "W-04")
def test_a_handler_past_its_timeout_is_interrupted(firm: Firm) -> None:
    def endless(payload: EmptyPayload, ctx: JobContext) -> None:
        while True:
            time.sleep(0.01)

    declare(endless, timeout_seconds=0.3)
    job_id = enqueue("test.long", firm=firm).job_id
    loop = burst()

    loop.run()

    assert not loop.state.stuck.is_set()
    assert (row(job_id).status, row(job_id).last_error) == (
        Status.DLQ,
        "timed out after 0.3 seconds",
    )
    (letter,) = dead_letters()
    assert letter.reason == DeadReason.EXHAUSTED


@pytest.mark.req("J-14")
def test_a_handler_that_cannot_be_interrupted_ends_its_worker(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "INTERRUPT_SECONDS", 0.2)
    freed = threading.Event()

    def stuck(payload: EmptyPayload, ctx: JobContext) -> None:
        freed.wait()

    declare(stuck, timeout_seconds=0.2)
    job_id = enqueue("test.long", firm=firm).job_id
    loop = burst()

    loop.run()
    freed.set()

    assert loop.state.stuck.is_set()
    assert (row(job_id).status, row(job_id).last_error) == (
        Status.DLQ,
        "timed out after 0.2 seconds",
    )


@pytest.mark.req("J-16")
def test_a_running_job_stops_at_a_checkpoint_after_it_was_canceled(firm: Firm) -> None:
    seen: list[str] = []

    def patient(payload: EmptyPayload, ctx: JobContext) -> None:
        asked = cancel(ctx.job_id, reason="not needed any more")
        seen.append(asked.status)
        while True:
            ctx.heartbeat()
            time.sleep(0.01)

    declare(patient)
    job_id = enqueue("test.long", firm=firm).job_id

    burst().run()

    assert seen[0] in {Status.CLAIMED, Status.PROCESSING}
    assert row(job_id).status == Status.CANCELED
    assert not dead_letters()
