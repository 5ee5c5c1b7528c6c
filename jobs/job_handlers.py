"""The job types the queue itself brings."""

from __future__ import annotations

from typing import Any

from jobs.registry import JobPayload, job
from jobs.states import Category


class NoopPayload(JobPayload):
    """Nothing but the envelope."""


@job("noop", category=Category.MAINTENANCE, payload=NoopPayload)
def noop(payload: NoopPayload, ctx: Any) -> None:
    """Do nothing: for benchmarks and for seeing that the queue runs."""
