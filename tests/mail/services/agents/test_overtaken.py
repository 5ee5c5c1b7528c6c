"""Dates of an agent schedule that waited together, and runs whose jobs ended without a result."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_django import Settings

from jobs import testing
from jobs.operations import limits
from jobs.queue import cancel, retry
from jobs.testing import frozen_time
from mail.job_handlers import base
from mail.models import AgentRun, RunStatus
from mail.services.agents.invocation import RUN_SINCE, SWITCHED_OFF
from mail.services.agents.run import STRANDED, fail_stranded_runs
from mail.services.agents.schedules import change_agent_schedule
from tenants.models import Firm
from tests.mail.llm.model_server import ModelServer
from tests.mail.mail_kit import Mailbox, jobs, only, stored
from tests.mail.services.agents.test_schedules import enqueue_due, planned, soon

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("U-02")]


def ends() -> list[tuple[str, Any]]:
    """Return how each job ended: its status, and the reason if its date was skipped."""
    found = jobs("agent_invocation", live=False)
    return [(job.status, (job.result or {}).get("reason")) for job in found]


def test_one_run_counts_for_all_dates_that_a_pause_holds_back(
    mailbox: Mailbox, server: ModelServer
) -> None:
    due_at = soon()
    planned(mailbox, due_at)
    server.answers = ["Nobody waits."]
    paused = limits.pause(firm=mailbox.firm.pk, job_type="agent_invocation", reason="holiday")
    with frozen_time(due_at) as clock:
        for _ in range(4):
            assert enqueue_due() == 1
            testing.drain()
            clock.tick(hours=1)
        limits.resume(paused)
        testing.drain()
    assert ends() == [("completed", None)] + [("completed", RUN_SINCE)] * 3
    assert len(server.asked) == 1
    assert only(stored(AgentRun)).status == RunStatus.COMPLETED


def test_one_run_counts_for_all_dates_that_a_spent_budget_holds_back(
    mailbox: Mailbox, server: ModelServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The next day of the budget must not begin during the test, whatever time it is.
    monkeypatch.setattr(base, "seconds_to_next_day", lambda: 12 * 3600.0)
    due_at = soon()
    planned(mailbox, due_at)
    settings.LLM_DAILY_BUDGET = 0.001
    server.answers = [[("nothing", {})], "Done.", "Nobody waits."]
    with frozen_time(due_at) as clock:
        for _ in range(3):
            enqueue_due()
            testing.drain()
            clock.tick(hours=1)
        settings.LLM_DAILY_BUDGET = 0
        clock.tick(hours=24)
        testing.drain()
    # The run of the first date had begun, so it goes on.
    assert ends() == [("completed", None)] + [("completed", RUN_SINCE)] * 2
    assert [(run.status, run.error) for run in stored(AgentRun)] == [
        (RunStatus.COMPLETED, ""),
        (RunStatus.ERROR, RUN_SINCE),
        (RunStatus.ERROR, RUN_SINCE),
    ]


def test_where_the_queue_is_always_late_the_agent_runs_all_the_same(
    mailbox: Mailbox, server: ModelServer
) -> None:
    due_at = soon()
    planned(mailbox, due_at)
    server.answers = ["Nobody waits."] * 3
    with frozen_time(due_at) as clock:
        for number in range(9):
            assert enqueue_due() == 1
            if number >= 2:
                testing.drain(max_jobs=1)
            clock.tick(hours=1)
    ran = [("completed", None), *[("completed", RUN_SINCE)] * 2]
    assert ends()[:7] == [*ran, *ran, ran[0]]
    assert len(server.asked) == 3


@pytest.mark.usefixtures("server")
def test_what_waits_when_its_timetable_is_switched_off_is_canceled(mailbox: Mailbox) -> None:
    due_at = soon()
    schedule = planned(mailbox, due_at)
    with frozen_time(due_at):
        enqueue_due()
        change_agent_schedule(schedule, enabled=False)
        testing.drain()
    job = only(jobs("agent_invocation", live=False))
    assert (job.status, job.last_error) == ("canceled", SWITCHED_OFF)
    assert stored(AgentRun) == []


def test_a_run_whose_job_is_canceled_is_failed_and_goes_on_with_a_retry(
    mailbox: Mailbox, server: ModelServer, settings: Settings, other_firm: Firm
) -> None:
    due_at = soon()
    planned(mailbox, due_at)
    settings.LLM_DAILY_BUDGET = 0.001
    server.answers = [[("nothing", {})], "Done."]
    with frozen_time(due_at):
        enqueue_due()
        testing.drain()
        job = only(jobs("agent_invocation"))
        assert fail_stranded_runs() == 0
        cancel(job)
        assert fail_stranded_runs(other_firm) == 0
        assert fail_stranded_runs() == 1
        run = only(stored(AgentRun))
        assert (run.status, run.error) == (RunStatus.ERROR, STRANDED)
        settings.LLM_DAILY_BUDGET = 0
        retry(job)
        testing.drain()
    assert only(stored(AgentRun)).status == RunStatus.COMPLETED
