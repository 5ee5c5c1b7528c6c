"""Log lines and metrics of the queue's events. No label names a firm."""

from __future__ import annotations

import logging
from collections import Counter as Counts
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from prometheus_client import Counter, Histogram

_log = structlog.get_logger("jobs")

SECONDS = (0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600)
# For a few database statements.
SHORT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)

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
STALE = Counter(
    "mailroom_stale_attempts", "Outcomes dropped: the job was another's by then", ["category"]
)
BREAKER_OPENINGS = Counter(
    "mailroom_breaker_openings", "Times a circuit breaker opened", ["job_type"]
)
CLAIM_SECONDS = Histogram("mailroom_claim_seconds", "How long claims took", buckets=SHORT_SECONDS)
SETTLE_SECONDS = Histogram(
    "mailroom_settle_seconds", "How long writing a batch of outcomes took", buckets=SHORT_SECONDS
)


def log(event: str, fields: Mapping[str, Any], *, problem: bool) -> None:
    """Write one line; problems as warnings."""
    write = _log.warning if problem else _log.info
    write(event, **fields)


@dataclass(frozen=True)
class Lines:
    """The message of a log record that stands for many lines, one for each of `fields`.

    The project's formatter writes them all; any other writes their number.
    """

    event: str
    fields: Sequence[dict[str, Any]]

    def __str__(self) -> str:
        return f"{self.event} x {len(self.fields)}"


def log_many(event: str, fields: Sequence[dict[str, Any]]) -> None:
    """Write many lines as one record: a record for each would cost more than running its job."""
    if fields:
        logging.getLogger("jobs").info(Lines(event, fields))


def measure_attempts(attempts: Sequence[Mapping[str, Any]]) -> None:
    """Count finished attempts and their times."""
    labels = Counts((one["category"], one["job_type"], one["outcome"]) for one in attempts)
    for values, number in labels.items():
        ATTEMPTS.labels(*values).inc(number)
    for one in attempts:
        RUN_SECONDS.labels(one["category"]).observe(one["run_s"])
        WAIT_SECONDS.labels(one["category"]).observe(one["wait_s"])


def measure_rescue(fields: Mapping[str, Any]) -> None:
    """Count jobs taken back."""
    RESCUED.inc(fields["rescued"] + fields["dead_lettered"])


def measure_stale(fields: Mapping[str, Any]) -> None:
    """Count an outcome that came too late."""
    STALE.labels(fields["category"]).inc()


def measure_opening(fields: Mapping[str, Any]) -> None:
    """Count a breaker that opened."""
    BREAKER_OPENINGS.labels(fields["job_type"]).inc()
