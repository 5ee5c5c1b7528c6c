"""Commands take the ids that lists print, also of rows of the same millisecond."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from jobs.models import CircuitBreaker, Pause, RateLimit, Schedule
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-04")]

Runner = Callable[..., Any]
_ID = re.compile(r"[0-9a-f-]{36}(?= )")
# The ids after this one differ only at the end, as those of a bulk do.
FIRST = UUID("01a2035c-ea59-7110-8abc-0123456789a0")


def letter(firm: Firm, number: int, **columns: Any) -> None:
    job = JobQueueFactory(firm=firm, status="dlq")
    DeadLetterQueueFactory(original_job=job, error="it broke" * 20, **columns)


def breaker(firm: Firm, number: int, **columns: Any) -> None:
    CircuitBreaker.objects.create(
        firm=firm,
        job_type=f"label.message.gmail.{number}",
        state="open",
        window_ends_at=timezone.now(),
        opened_at=timezone.now(),
        probe_at=timezone.now(),
        **columns,
    )


MAKERS: dict[str, Callable[..., Any]] = {
    "jobs": lambda firm, number, **columns: JobQueueFactory(
        firm=firm, job_id=columns["id"], last_error="it broke" * 20
    ),
    "dlq": letter,
    "pauses": lambda firm, number, **columns: Pause.objects.create(
        firm=firm, job_type=f"type.{number}", reason="down " * 30, paused_by="ada", **columns
    ),
    "rate_limits": lambda firm, number, **columns: RateLimit.objects.create(
        firm=firm, job_type=f"type.{number}", amount=1, per_seconds=1, burst=1, **columns
    ),
    "breakers": breaker,
    "schedules": lambda firm, number, **columns: Schedule.objects.create(
        firm=firm, name=f"{number} " * 20, job_type="noop", cron="0 3 * * *", **columns
    ),
}
OPERATIONS = {
    "jobs": ("cancel",),
    "dlq": ("discard", "--reason", "old"),
    "pauses": ("resume",),
    "rate_limits": ("clear",),
    "breakers": ("close", "--reason", "well"),
    "schedules": ("pause", "--reason", "quiet"),
}


@pytest.mark.parametrize("command", MAKERS)
def test_what_a_list_prints_can_be_acted_on(
    command: str, run: Runner, firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with all_firms("test"):
        made = [UUID(int=FIRST.int + number) for number in range(3)]
        for number, one in enumerate(made):
            MAKERS[command](firm, number, id=one)
    printed = [
        found[0] for line in run(command, "list").out.splitlines() if (found := _ID.match(line))
    ]
    assert printed == [str(one) for one in reversed(made)]
    for one in printed:
        name, *rest = OPERATIONS[command]
        assert run(command, name, one, *rest).code == 0
