"""The job types of the lifecycle's tests, which run on committed rows."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.registry import JobPayload, job


class WorkPayload(JobPayload):
    """A payload without fields of its own."""


@pytest.fixture(autouse=True)
def work_types(job_types: dict[str, Any], settled_database: None) -> None:
    """Declare one type with dead letters and one without."""

    def work(payload: WorkPayload, ctx: Any) -> None:
        pass

    def shrug(payload: WorkPayload, ctx: Any) -> None:
        pass

    job("test.work", category="sync", payload=WorkPayload)(work)
    job("test.shrug", category="sync", payload=WorkPayload, dead_letter=False)(shrug)
