"""The dashboard's table of firms, the most urgent first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.urls import reverse

from jobs.queries.durations import in_words
from jobs.queries.stats import JobCounts, count_jobs
from jobs.states import Status
from tenants.models import Firm

FIRMS_SHOWN = 20


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
    counts = sorted(count_jobs("firm_id", now).values(), key=_urgency, reverse=True)[:FIRMS_SHOWN]
    firms = Firm.objects.in_bulk([firm.group for firm in counts])
    return [_line(firms[firm.group], firm) for firm in counts if firm.group in firms]


def _urgency(firm: JobCounts) -> tuple[int, int, int]:
    """Open dead letters first, then the longest queue, then the busiest."""
    return firm.statuses[Status.DLQ], firm.statuses[Status.PENDING], firm.window_completed


def _line(firm: Firm, counts: JobCounts) -> FirmLine:
    wait, rate = counts.oldest_wait_seconds, counts.failure_rate
    return FirmLine(
        name=firm.name,
        jobs_url=_url("jobqueue", firm=firm.slug),
        dead_url=_url("deadletterqueue", firm=firm.slug, decision="open"),
        pending=counts.statuses[Status.PENDING],
        running=counts.in_flight,
        dead=counts.statuses[Status.DLQ],
        oldest_wait="-" if wait is None else in_words(wait),
        per_minute=f"{counts.completed_per_minute:.1f}",
        failure_rate="-" if rate is None else f"{rate:.1%}",
    )


def _url(model: str, **filters: str) -> str:
    return f"{reverse(f'admin:jobs_{model}_changelist')}?{urlencode(filters)}"
