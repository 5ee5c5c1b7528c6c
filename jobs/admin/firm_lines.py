"""The dashboard's table of firms: which of them needs a look first."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Min, Q, Sum
from django.urls import reverse

from jobs.models import DeadLetterQueue, JobMinute, JobQueue
from jobs.queries.durations import in_words
from jobs.queries.filters import OPEN_RESOLUTIONS
from jobs.queries.stats import WINDOW_MINUTES
from jobs.states import IN_FLIGHT
from tenants.models import Firm

FIRMS_SHOWN = 20


@dataclass
class _Tally:
    """What was counted for one firm."""

    pending: int = 0
    running: int = 0
    dead: int = 0
    completed: int = 0
    failed: int = 0
    due_since: datetime | None = None

    @property
    def urgency(self) -> tuple[int, int, int]:
        """Open dead letters first, then the longest queue, then the busiest."""
        return self.dead, self.pending, self.completed


@dataclass(frozen=True)
class FirmLine:
    """One firm's row in the table."""

    name: str
    jobs_url: str
    dead_url: str
    pending: int
    running: int
    dead: int
    oldest_wait: str
    per_minute: str
    failure_rate: str


def firm_lines(now: datetime) -> list[FirmLine]:
    """Return the firms in scope that have something in the queue, the most urgent first."""
    tallies: dict[int, _Tally] = defaultdict(_Tally)
    _count_live(tallies, now)
    _count_dead_letters(tallies)
    _count_settled(tallies, now - timedelta(minutes=WINDOW_MINUTES))
    shown = sorted(tallies, key=lambda firm_id: tallies[firm_id].urgency, reverse=True)
    firms = Firm.objects.in_bulk(shown[:FIRMS_SHOWN])
    return [
        _line(firms[firm_id], tallies[firm_id], now)
        for firm_id in shown[:FIRMS_SHOWN]
        if firm_id in firms
    ]


def _count_live(tallies: dict[int, _Tally], now: datetime) -> None:
    """Count live jobs; each is either ready or waiting, and each flag has its index.

    Grouped in the order of the claim index: by firm alone, SQLite would walk the index of all
    jobs, history included.
    """
    for flag in ("ready", "waiting"):
        rows = (
            JobQueue.objects.filter(**{flag: True})
            .values("priority", "firm_id", "status")
            .annotate(
                jobs=Count("pk"), due_since=Min("scheduled_at", filter=Q(scheduled_at__lte=now))
            )
            .order_by()
        )
        for row in rows:
            tally = tallies[row["firm_id"]]
            if row["status"] in IN_FLIGHT:
                tally.running += row["jobs"]
                continue
            tally.pending += row["jobs"]
            known = [moment for moment in (tally.due_since, row["due_since"]) if moment]
            tally.due_since = min(known, default=None)


def _count_dead_letters(tallies: dict[int, _Tally]) -> None:
    letters = DeadLetterQueue.objects.filter(resolution__in=OPEN_RESOLUTIONS)
    for row in _by_firm(letters, dead=Count("pk")):
        tallies[row["firm_id"]].dead = row["dead"]


def _count_settled(tallies: dict[int, _Tally], since: datetime) -> None:
    minutes = JobMinute.objects.filter(minute__gte=since)
    sums = {f"sum_{name}": Sum(name) for name in ("completed", "failed", "dlq")}
    for row in _by_firm(minutes, **sums):
        tally = tallies[row["firm_id"]]
        tally.completed = row["sum_completed"]
        tally.failed = row["sum_failed"] + row["sum_dlq"]


def _by_firm(rows: Any, **figures: Any) -> Any:
    return rows.values("firm_id").annotate(**figures).order_by()


def _line(firm: Firm, tally: _Tally, now: datetime) -> FirmLine:
    settled = tally.completed + tally.failed
    wait = tally.due_since and in_words((now - tally.due_since).total_seconds())
    return FirmLine(
        name=firm.name,
        jobs_url=_url("jobqueue", firm=firm.slug),
        dead_url=_url("deadletterqueue", firm=firm.slug, decision="open"),
        pending=tally.pending,
        running=tally.running,
        dead=tally.dead,
        oldest_wait=wait or "-",
        per_minute=f"{tally.completed / WINDOW_MINUTES:.1f}",
        failure_rate=f"{tally.failed / settled:.1%}" if settled else "-",
    )


def _url(model: str, **filters: str) -> str:
    return f"{reverse(f'admin:jobs_{model}_changelist')}?{urlencode(filters)}"
