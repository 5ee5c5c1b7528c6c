"""Job types that declare a circuit breaker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from jobs.breaker import Breaker
from jobs.queue import enqueue
from jobs.registry import JobPayload, job
from jobs.retry import RetryPolicy
from tenants.models import Firm

RULE = Breaker(failure_rate=0.5, min_attempts=4, window_seconds=60, cooldown_seconds=30)


class FrailPayload(JobPayload):
    name: str = ""


@pytest.fixture(autouse=True)
def frail_types(job_types: dict[str, Any]) -> None:
    """Declare the types that the tests enqueue."""

    def declare(name: str, **options: Any) -> None:
        def handle(payload: FrailPayload, ctx: Any) -> None:
            pass

        handle.__qualname__ = name
        retry = RetryPolicy(max_attempts=9, base_delay_seconds=1, jitter=0)
        job(name, category="sync", payload=FrailPayload, retry=retry, **options)(handle)

    declare("frail", breaker=RULE)
    declare("frail.too", breaker=RULE)
    declare("frail.keyed", breaker=RULE, lock_key=lambda payload: payload.name)
    declare("frail.mailbox", breaker=RULE, limit_key=lambda payload: payload.name or None)
    declare("sturdy")


Add = Callable[..., list[UUID]]


@pytest.fixture
def add(firm: Firm) -> Add:
    """Enqueue jobs of `frail` and return their ids in order."""

    def add_some(
        count: int = 1,
        *,
        job_type: str = "frail",
        name: str = "",
        firm: Firm = firm,
        **options: Any,
    ) -> list[UUID]:
        return [
            enqueue(job_type, {"name": name}, firm=firm, **options).job_id for _ in range(count)
        ]

    return add_some
