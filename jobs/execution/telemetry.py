"""Turns the queue's events into log lines and this process's metrics. No label names a firm."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from prometheus_client import Counter, Histogram

from jobs.execution.histograms import BatchHistogram

_log = structlog.get_logger("jobs")

SECONDS = (0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600)
# What the database takes for a statement or two.
SHORT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)

ATTEMPTS = Counter(
    "mailroom_attempts", "Attempts this process finished", ["category", "job_type", "outcome"]
)
RUN_SECONDS = BatchHistogram("mailroom_run_seconds", "How long handlers ran", "category", SECONDS)
WAIT_SECONDS = BatchHistogram("mailroom_wait_seconds", "From due to claimed", "category", SECONDS)
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
    """The message of a record that stands for many lines: a formatter writes each of `fields`.

    Whoever knows nothing of that writes how many there were.
    """

    event: str
    fields: Sequence[dict[str, Any]]

    def __str__(self) -> str:
        return f"{self.event} x {len(self.fields)}"


def log_many(event: str, fields: Sequence[dict[str, Any]]) -> None:
    """Write many lines as one record: by one, a line costs more than running its job."""
    if fields:
        logging.getLogger("jobs").info(Lines(event, fields))


def measure_attempts(attempts: Sequence[Mapping[str, Any]]) -> None:
    """Count finished attempts and their times."""
    by_labels = defaultdict(list)
    for fields in attempts:
        by_labels[fields["category"], fields["job_type"], fields["outcome"]].append(fields)
    for labels, alike in by_labels.items():
        ATTEMPTS.labels(*labels).inc(len(alike))
        RUN_SECONDS.observe(labels[0], [fields["run_s"] for fields in alike])
        WAIT_SECONDS.observe(labels[0], [fields["wait_s"] for fields in alike])


def measure_rescue(fields: Mapping[str, Any]) -> None:
    """Count jobs taken back."""
    RESCUED.inc(fields["rescued"] + fields["dead_lettered"])


def measure_stale(fields: Mapping[str, Any]) -> None:
    """Count an outcome that came too late."""
    STALE.labels(fields["category"]).inc()


def measure_opening(fields: Mapping[str, Any]) -> None:
    """Count a breaker that opened."""
    BREAKER_OPENINGS.labels(fields["job_type"]).inc()
