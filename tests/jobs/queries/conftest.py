"""Job types whose jobs anything can hold back."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.breaker import Breaker
from jobs.registry import job
from tests.jobs.engine.conftest import WorkPayload, add

__all__ = ["add"]


@pytest.fixture(autouse=True)
def work_types(job_types: dict[str, Any]) -> None:
    """Declare the types that the tests enqueue, each with a breaker."""

    def declare(name: str, **options: Any) -> None:
        def handle(payload: WorkPayload, ctx: Any) -> None:
            pass

        handle.__qualname__ = name
        options = {"category": "sync", "breaker": Breaker(), **options}
        job(name, payload=WorkPayload, **options)(handle)

    declare("test.work")
    declare("test.other", category="export")
    declare("test.mailbox", limit_key=lambda p: p.name)
    declare("test.heavy", limit_units=lambda p: len(p.name))
    declare("test.locked", lock_key=lambda p: p.name)
