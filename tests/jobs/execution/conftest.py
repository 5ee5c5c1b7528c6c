"""A running job of the test's own type, and the threads beside the event loop put away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from jobs.engine.claim import Claim
from jobs.execution.async_bridge import DATABASE_THREADS
from jobs.execution.context import JobContext, Signals
from jobs.queue import enqueue
from jobs.registry import JobPayload, job
from jobs.retry import RetryPolicy
from tenants.models import Firm
from tests.queue_kit import take_one


class NamePayload(JobPayload):
    """What the test's job types take."""

    name: str = ""


@pytest.fixture(autouse=True)
def types(job_types: dict[str, Any]) -> None:
    """Declare the types that the tests enqueue."""

    def do_nothing(payload: NamePayload, ctx: JobContext) -> None:
        pass

    retry = RetryPolicy(max_attempts=3, base_delay_seconds=60, jitter=0)

    def declare(name: str, **options: Any) -> None:
        job(name, category="sync", payload=NamePayload, retry=retry, **options)(do_nothing)

    for name in ("test.parent", "test.child", "test.then"):
        declare(name)
    declare("test.once", once_only=True)
    declare("test.locked", lock_key=lambda payload: payload.name)


@pytest.fixture
def claim(firm: Firm) -> Claim:
    """Return a claimed job."""
    enqueue("test.parent", firm=firm)
    return take_one()


@pytest.fixture
def signals() -> Signals:
    """Return what the worker could tell the handler."""
    return Signals()


@pytest.fixture
def ctx(claim: Claim, signals: Signals) -> JobContext:
    """Return what the handler of that job works with."""
    return JobContext(claim, signals)


@pytest.fixture
def run() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Run a coroutine on a loop of its own; the threads beside it are gone after the test."""
    yield asyncio.run
    DATABASE_THREADS.shutdown()
