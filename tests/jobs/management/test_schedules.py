"""`manage.py schedules`: listing schedules and their runs; running, pausing and resuming one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from jobs.engine.schedule_runs import follow_runs
from jobs.models import Schedule
from tenants.models import Firm
from tenants.scope import all_firms
from tests.jobs.schedules.kit import MINUTE, START, jobs, now, schedule, tick_at
from tests.queue_kit import work_off

pytestmark = pytest.mark.req("S-02", "O-04")

Runner = Callable[..., Any]


def test_the_list_for_programs_and_for_people(run: Runner, firm: Firm, other_firm: Firm) -> None:
    row = schedule(firm, name="nightly", cron="30 2 * * *", time_zone="Europe/Vienna")
    schedule(other_firm, name="hourly")
    (shown,) = run("schedules", "list", "--firm", "acme", "--json").json["results"]
    assert (shown["id"], shown["timetable"]) == (
        str(row.pk),
        "At 02:30 every day, Europe/Vienna",
    )
    everybodys = run("schedules", "list").out
    assert "nightly" in everybodys
    assert "hourly" in everybodys


def test_the_list_says_which_fail(run: Runner, firm: Firm) -> None:
    row = schedule(firm, name="nightly")
    assert "PayloadInvalid" not in run("schedules", "list").out
    with all_firms("test"):
        Schedule.objects.filter(pk=row.pk).update(last_error="PayloadInvalid: region is missing")
    assert "PayloadInvalid: region is missing" in run("schedules", "list").out


def test_the_runs_of_one_for_programs_and_for_people(run: Runner, firm: Firm) -> None:
    row = schedule(firm, name="nightly")
    assert "No recent runs" in run("schedules", "runs", str(row.pk)).out
    tick_at(START + MINUTE)
    work_off()
    follow_runs(None)
    schedule(firm, name="another")
    (shown,) = run("schedules", "runs", str(row.pk)[:18], "--json").json["results"]
    assert (shown["slot"], shown["outcome"]) == ("2026-01-15T12:01:00.000Z", "completed")
    assert "completed" in run("schedules", "runs", str(row.pk)).out
    assert run("schedules", "runs", str(uuid4())).code == 3


def test_running_pausing_and_resuming_one(run: Runner, firm: Firm) -> None:
    row = schedule(firm, name="nightly")
    assert "1 new jobs" in run("schedules", "run", str(row.pk)).out
    assert len(jobs()) == 1
    assert run("schedules", "pause", str(row.pk)[:18], "--json").json["enabled"] is False
    assert run("schedules", "pause", str(row.pk)).code == 1
    assert "is resumed" in run("schedules", "resume", str(row.pk)).out
    assert now(row).enabled is True
    assert run("schedules", "run", str(uuid4())).code == 3
