"""`/metrics` of the web process: the queue as the database shows it. No label names a firm."""

from __future__ import annotations

from collections.abc import Iterator

from django.http import HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jobs.states import Status
from jobs.stats import QueueStats, queue_stats
from tenants.scope import all_firms

EXACT = (Status.PENDING, Status.CLAIMED, Status.PROCESSING, Status.DLQ)


class QueueCollector(Collector):
    """Turns queue statistics into gauges."""

    def __init__(self, stats: QueueStats) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        """Yield one family per figure."""
        jobs = GaugeMetricFamily("mailroom_jobs", "Jobs", labels=["category", "status"])
        oldest = GaugeMetricFamily(
            "mailroom_oldest_wait_seconds", "Wait of the oldest due job", labels=["category"]
        )
        rate = GaugeMetricFamily(
            "mailroom_completed_per_minute", "Over the last hour", labels=["category"]
        )
        for one in self._stats["categories"]:
            for status in EXACT:
                jobs.add_metric([one["category"], status.value], one[status.value])
            oldest.add_metric([one["category"]], one["oldest_wait_seconds"] or 0.0)
            rate.add_metric([one["category"]], one["completed_per_minute"])
        yield from (jobs, oldest, rate)
        yield GaugeMetricFamily(
            "mailroom_workers", "Live worker processes", value=self._stats["workers"]
        )
        yield GaugeMetricFamily(
            "mailroom_dead_letters_open",
            "Dead letters nobody has decided",
            value=self._stats["dead_letters_open"],
        )


def metrics(_: HttpRequest) -> HttpResponse:
    """Answer a scrape."""
    with all_firms("metrics carry no firm"):
        stats = queue_stats()
    registry = CollectorRegistry()
    registry.register(QueueCollector(stats))
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
