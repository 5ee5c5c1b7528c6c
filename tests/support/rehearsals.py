"""Rehearsals without a process, for tests of pages and requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from jobs.operations import rehearsal

REPORT: dict[str, Any] = {
    "outcome": "retried",
    "error": {
        "error_class": "TimeoutError",
        "message": "no answer",
        "traceback": "Traceback: sync.py",
        "fingerprint": "abc",
    },
    "result": None,
    "delay_seconds": 30.0,
    "seconds": 0.25,
    "writes": [
        {
            "table": "jobs_schedule",
            "rows": "schedule",
            "inserted": 3,
            "updated": 0,
            "deleted": 1,
            "ids": ["0190b5a5-02f1-7a44-8c61-2f9d7b3e4a10"],
        }
    ],
    "children": [
        {
            "job_type": "noop",
            "firm": "acme",
            "payload": {"password": "hunter2", "to": "x"},
            "priority": 2,
            "scheduled_at": datetime(2026, 3, 2, 9, 14, 7, tzinfo=UTC),
            "after": None,
            "lock_key": None,
            "idempotency_key": "leaf",
        },
        {
            "job_type": "noop",
            "firm": "acme",
            "payload": {},
            "priority": 2,
            "scheduled_at": None,
            "after": "this job is completed",
            "lock_key": None,
            "idempotency_key": None,
        },
    ],
    "calls": [{"kind": "network", "target": "mail.example:443", "count": 2}],
    "steps": [{"name": "charge", "was_stored": True, "result": {"amount": 5}}],
    "log": ["charged"],
}


@contextmanager
def without_process(report: dict[str, Any] = REPORT) -> Iterator[list[Any]]:
    """Answer every rehearsal with `report`; yield the list of changes that were to be rehearsed."""
    tried: list[Any] = []

    def run(_: Any, change: Any) -> dict[str, Any]:
        tried.append(change)
        return {**rehearsal.EMPTY, **report}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rehearsal, "_run", run)
        yield tried
