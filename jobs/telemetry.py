"""Turns the queue's events into log lines and this process's metrics. No label names a firm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from prometheus_client import Counter, Histogram

_log = structlog.get_logger("jobs")

SECONDS = (0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600)

ATTEMPTS = Counter(
    "mailroom_attempts", "Attempts this process finished", ["category", "job_type", "outcome"]
)
RUN_SECONDS = Histogram(
    "mailroom_run_seconds", "How long handlers ran", ["category"], buckets=SECONDS
)
WAIT_SECONDS = Histogram(
    "mailroom_wait_seconds", "From due to claimed", ["category"], buckets=SECONDS
)
RESCUED = Counter("mailroom_rescued_jobs", "Jobs taken back from dead workers")


def log(event: str, fields: Mapping[str, Any], *, problem: bool) -> None:
    """Write one line; problems as warnings."""
    write = _log.warning if problem else _log.info
    write(event, **fields)


def measure_attempt(fields: Mapping[str, Any]) -> None:
    """Count a finished attempt and its times."""
    category = fields["category"]
    ATTEMPTS.labels(category, fields["job_type"], fields["outcome"]).inc()
    RUN_SECONDS.labels(category).observe(fields["run_s"])
    WAIT_SECONDS.labels(category).observe(fields["wait_s"])


def measure_rescue(fields: Mapping[str, Any]) -> None:
    """Count jobs taken back."""
    RESCUED.inc(fields["rescued"] + fields["dead_lettered"])
