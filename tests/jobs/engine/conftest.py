"""Job types for the engine's tests, which run on committed rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from jobs.queue import enqueue
from jobs.registry import JobPayload, job
from jobs.retry import RetryPolicy
from tenants.models import Firm


class WorkPayload(JobPayload):
    """The payload of the test's job types."""

    name: str = ""
    units: int = 1


@pytest.fixture(autouse=True)
def work_types(job_types: dict[str, Any]) -> None:
    """Declare the types the tests enqueue."""
    exact = RetryPolicy(max_attempts=3, base_delay_seconds=60, jitter=0)

    def declare(name: str, **options: Any) -> None:
        def handle(payload: WorkPayload, ctx: Any) -> None:
            pass

        handle.__qualname__ = name
        options = {"category": "sync", "retry": exact, **options}
        job(name, payload=WorkPayload, **options)(handle)

    declare("test.work", limit_units=lambda p: p.units)
    declare("test.other", category="export")
    declare("test.jittered", retry=RetryPolicy())
    declare("test.once", once_only=True)
    declare("test.named", idempotency_key=lambda p: f"named:{p.name}")
    declare("test.locked", lock_key=lambda p: p.name)
    declare("test.two_at_once", lock_key=lambda p: p.name, lock_limit=2)
    shared: dict[str, Any] = {"lock_key": lambda p: p.name, "lock_counted_by": "all_firms"}
    declare("test.shared", **shared)
    declare("test.shared_by_two", lock_limit=2, **shared)
    declare("test.mailbox", limit_key=lambda p: p.name or None, limit_units=lambda p: p.units)
    declare("test.shrug", dead_letter=False)


Add = Callable[..., UUID]


@pytest.fixture
def add(firm: Firm) -> Add:
    """Enqueue a job of `test.work` and return its id."""

    def add_one(
        job_type: str = "test.work",
        name: str = "",
        *,
        firm: Firm = firm,
        at: datetime | None = None,
        units: int = 1,
        **options: Any,
    ) -> UUID:
        payload = {"name": name} if units == 1 else {"name": name, "units": units}
        return enqueue(job_type, payload, firm=firm, at=at, **options).job_id

    return add_one
