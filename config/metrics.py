"""`/metrics` of the web process: the queue as the database shows it. No label names a firm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db import connection
from django.http import HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jobs.engine.clock import database_now
from jobs.queries.doctor.snapshots import oldest_snapshot
from jobs.queries.stats import QueueStats, breakers_not_closed, queue_stats, schedules_late
from jobs.states import Status
from mail.services.syncing.watch import count_watches, last_push_age
from tenants.scope import all_firms

EXACT = (Status.PENDING, Status.CLAIMED, Status.PROCESSING, Status.DLQ)


@dataclass(frozen=True, kw_only=True, eq=False)
class QueueCollector(Collector):
    """Exports what a scrape read from the database; `oldest_snapshot` is None on SQLite."""

    stats: QueueStats
    breakers: Sequence[tuple[str, str, int]]
    schedules_late: int
    oldest_snapshot: float | None

    def collect(self) -> Iterator[Metric]:
        """Yield one family per figure."""
        jobs = GaugeMetricFamily("mailroom_jobs", "Jobs", labels=["category", "status"])
        oldest = GaugeMetricFamily(
            "mailroom_oldest_wait_seconds",
            "Wait of the oldest due job that nobody holds back on purpose",
            labels=["category"],
        )
        held_back = GaugeMetricFamily(
            "mailroom_held_back_jobs",
            "Due jobs that a limit or a lock holds back",
            labels=["category", "reason"],
        )
        rate = GaugeMetricFamily(
            "mailroom_completed_per_minute", "Over the last hour", labels=["category"]
        )
        for category in self.stats.categories:
            for status in EXACT:
                jobs.add_metric([category.group, status.value], category.statuses[status])
            oldest.add_metric([category.group], category.oldest_wait_seconds or 0.0)
            for code, held in category.held_back.items():
                held_back.add_metric([category.group, code.value], held)
            rate.add_metric([category.group], category.completed_per_minute)
        breakers = GaugeMetricFamily(
            "mailroom_breakers",
            "Firms for which the type's circuit breaker is not closed",
            labels=["job_type", "state"],
        )
        for job_type, state, firms in self.breakers:
            breakers.add_metric([job_type, state], firms)
        yield from (jobs, oldest, held_back, rate, breakers)
        for name, text, value in (
            ("workers", "Live worker processes", self.stats.workers),
            (
                "dead_letters_open",
                "Dead letters nobody has decided",
                self.stats.totals.statuses[Status.DLQ],
            ),
            (
                "schedules_late",
                "Schedules that were due over a minute ago and did not run",
                self.schedules_late,
            ),
            (
                "oldest_snapshot_seconds",
                "Age of the oldest transaction that keeps vacuum from removing dead rows",
                self.oldest_snapshot,
            ),
        ):
            if value is not None:
                yield GaugeMetricFamily(f"mailroom_{name}", text, value=value)


@dataclass(frozen=True, kw_only=True, eq=False)
class WatchCollector(Collector):
    """Exports Gmail's watches by state, and the age of the last push; nothing without watches."""

    watches: Mapping[str, int]
    push_age: float | None

    def collect(self) -> Iterator[Metric]:
        """Yield one family per figure."""
        if not self.watches:
            return
        watches = GaugeMetricFamily(
            "mailroom_watches", "Watches of connected mailboxes", labels=["state"]
        )
        for state, number in self.watches.items():
            watches.add_metric([state], number)
        yield watches
        if self.push_age is not None:
            yield GaugeMetricFamily(
                "mailroom_last_push_seconds", "Since a notification was taken", value=self.push_age
            )


def metrics(_: HttpRequest) -> HttpResponse:
    """Answer a scrape."""
    snapshot = None
    with all_firms("metrics carry no firm", reading=True):
        if connection.vendor == "postgresql":
            oldest = oldest_snapshot()
            snapshot = 0.0 if oldest is None else oldest.seconds
        collector = QueueCollector(
            stats=queue_stats(),
            breakers=breakers_not_closed(),
            schedules_late=schedules_late(database_now()),
            oldest_snapshot=snapshot,
        )
    registry = CollectorRegistry()
    registry.register(collector)
    registry.register(WatchCollector(watches=count_watches(), push_age=last_push_age()))
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
