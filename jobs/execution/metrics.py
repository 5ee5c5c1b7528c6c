"""The queue's metrics, where `prometheus-client` is installed. No label names a firm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Self

from jobs import registry
from jobs.engine.rollups import by_bucket
from jobs.execution.telemetry import FinishedAttempts
from jobs.states import Category

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram
else:
    try:
        from prometheus_client import Counter, Histogram
    except ImportError:

        class Counter:
            """Counts nothing."""

            def __init__(self, *_: Any, **__: Any) -> None:
                """Take what a metric takes."""

            def labels(self, *_: Any) -> Self:
                """Return itself."""
                return self

            def inc(self, *_: Any) -> None:
                """Do nothing."""

            def time(self) -> AbstractContextManager[None]:
                """Measure nothing."""
                return nullcontext()

        class Histogram(Counter):
            """Measures nothing."""

            _upper_bounds = _buckets = ()
            _sum = Counter()


# The label of types that no code declares: rows may name any number of them.
UNKNOWN_TYPE = "unknown"
SECONDS = (0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600)
# For a few database statements.
SHORT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)

ATTEMPTS = Counter(
    "mailroom_attempts", "Attempts that this process finished", ["category", "job_type", "outcome"]
)


class BatchHistogram(Histogram):
    """A histogram that many observations can be added to at once: one by one takes 20 times as long."""

    def observe_many(self, amounts: Sequence[float]) -> None:
        """Add these observations."""
        for bucket, number in by_bucket(amounts, self._upper_bounds):
            self._buckets[bucket].inc(number)
        self._sum.inc(sum(amounts))


RUN_SECONDS = BatchHistogram(
    "mailroom_run_seconds", "How long handlers ran", ["category", "job_type"], buckets=SECONDS
)
WAIT_SECONDS = BatchHistogram(
    "mailroom_wait_seconds", "From due to claimed", ["category", "job_type"], buckets=SECONDS
)
RESCUED = Counter("mailroom_rescued_jobs", "Jobs rescued from dead workers")
STALE = Counter(
    "mailroom_stale_attempts",
    "Outcomes dropped because the job no longer belonged to this attempt",
    ["category"],
)
BREAKER_OPENINGS = Counter(
    "mailroom_breaker_openings", "Times that a circuit breaker opened", ["job_type"]
)
CLAIM_SECONDS = Histogram("mailroom_claim_seconds", "How long claims took", buckets=SHORT_SECONDS)
SETTLE_SECONDS = Histogram(
    "mailroom_settle_seconds",
    "How long it took to store a batch of outcomes",
    buckets=SHORT_SECONDS,
)


def begin_at_zero() -> None:
    """Export the counters that alerts ask `increase()` of before they count anything.

    A series that first appears with the value 1 has not increased, as Prometheus sees it.
    """
    for category in Category:
        STALE.labels(category)
    for declared in registry.all_types():
        if declared.breaker is not None:
            BREAKER_OPENINGS.labels(declared.name)


def measure_attempts(attempts: FinishedAttempts) -> None:
    """Count finished attempts and their times."""
    for kind, same in attempts.items():
        labels = kind.category, _type_label(kind.job_type)
        ATTEMPTS.labels(*labels, kind.outcome).inc(len(same))
        RUN_SECONDS.labels(*labels).observe_many([one.run_s for one in same])
        WAIT_SECONDS.labels(*labels).observe_many([one.wait_s for one in same])


def _type_label(job_type: str) -> str:
    """Return the type as a label; all types that no code declares share one."""
    return job_type if registry.find(job_type) is not None else UNKNOWN_TYPE


def measure_rescue(fields: Mapping[str, Any]) -> None:
    """Count jobs taken back."""
    RESCUED.inc(fields["rescued"] + fields["dead_lettered"])


def measure_stale(fields: Mapping[str, Any]) -> None:
    """Count an outcome that came too late."""
    STALE.labels(fields["category"]).inc()


def measure_opening(fields: Mapping[str, Any]) -> None:
    """Count a breaker that opened."""
    BREAKER_OPENINGS.labels(fields["job_type"]).inc()
