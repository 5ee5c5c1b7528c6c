"""Metrics of the web process, about the queue, and of a worker, about its own work."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from prometheus_client import REGISTRY

from jobs.models import CircuitBreaker, Schedule
from jobs.queue import enqueue
from tenants.models import Firm
from tenants.scope import all_firms

pytestmark = pytest.mark.req("W-07", "O-05")


def scraped(prefix: str) -> list[str]:
    """Return the samples of the web process whose names begin with `prefix`."""
    text = Client().get(reverse("metrics")).content.decode()
    return [line for line in text.splitlines() if line.startswith(prefix)]


def breaker(firm: Firm, job_type: str, state: str) -> None:
    CircuitBreaker.objects.create(
        firm=firm, job_type=job_type, state=state, window_ends_at=timezone.now()
    )


def schedule(firm: Firm, name: str, due_for: int, **columns: Any) -> None:
    Schedule.objects.create(
        firm=firm,
        name=name,
        job_type="noop",
        interval_seconds=3600,
        next_run_at=timezone.now() - timedelta(seconds=due_for),
        **columns,
    )


@pytest.mark.django_db
@pytest.mark.req("O-07", "T-03")
def test_breakers_are_counted_by_firms_and_name_none(firm: Firm, other_firm: Firm) -> None:
    with all_firms("test"):
        for one in (firm, other_firm):
            breaker(one, "sync", "open")
        breaker(firm, "classify", "half_open")
        breaker(other_firm, "classify", "closed")
    assert scraped("mailroom_breakers{") == [
        'mailroom_breakers{job_type="classify",state="half_open"} 1.0',
        'mailroom_breakers{job_type="sync",state="open"} 2.0',
    ]


@pytest.mark.django_db
@pytest.mark.req("S-01")
def test_schedules_that_nobody_runs_are_counted(firm: Firm, other_firm: Firm) -> None:
    with all_firms("test"):
        schedule(firm, "late", 120)
        schedule(firm, "due", 20)
        schedule(firm, "paused", 120, enabled=False)
        schedule(other_firm, "resting", 120)
    Firm.objects.filter(pk=other_firm.pk).update(active=False)
    assert scraped("mailroom_schedules_late ") == ["mailroom_schedules_late 1.0"]


@pytest.mark.django_db(transaction=True)
def test_a_worker_counts_what_it_does(firm: Firm) -> None:
    names = [f"mailroom_{what}_seconds_count" for what in ("claim", "settle")]

    labels = {"category": "maintenance", "job_type": "noop"}

    def counted() -> list[float]:
        run = REGISTRY.get_sample_value("mailroom_run_seconds_count", labels)
        return [run or 0.0, *(REGISTRY.get_sample_value(name) or 0.0 for name in names)]

    before = counted()
    enqueue("noop", {}, firm=firm)
    call_command("runworker", burst=True)
    run, claims, settles = (now - was for now, was in zip(counted(), before, strict=True))
    assert run == 1
    assert claims >= 2
    assert settles == 1
