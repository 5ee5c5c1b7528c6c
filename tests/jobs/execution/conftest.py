"""A running job of a type of the tests, and a loop whose threads end with each test."""

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
    """The payload of the test's job types."""

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
    """Return the signals by which a worker tells the handler of a cancel or of a lost lease."""
    return Signals()


@pytest.fixture
def ctx(claim: Claim, signals: Signals) -> JobContext:
    """Return the context of that job's handler."""
    return JobContext(claim, signals)


@pytest.fixture
def run() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Return a function that runs a coroutine on a loop whose threads end with the test."""
    yield asyncio.run
    DATABASE_THREADS.shutdown()
