"""What people do with schedules: create, change, run, pause, resume; and default schedules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext

from jobs.engine.clock import stopped_at
from jobs.errors import ScheduleInvalid, UnknownJob, WrongState
from jobs.models import Schedule
from jobs.operations.schedules import change_schedule, create_schedule, pause, resume, run_now
from jobs.registry import JobPayload, job
from jobs.schedules import defaults
from jobs.schedules.defaults import default_schedule, store_default_schedules
from jobs.schedules.groups import GroupRequest, Member
from jobs.states import MissedRuns, ScheduleTarget
from tenants.errors import MissingTenant
from tenants.models import AuditEntry, Firm
from tenants.scope import all_firms, firm_scope
from tests.factories.jobs import task_call
from tests.jobs.schedules.kit import DAY, HOUR, MINUTE, START, jobs, now, schedule, slots, tick_at

pytestmark = [pytest.mark.django_db, pytest.mark.req("S-01")]


def audited(row: Schedule) -> list[AuditEntry]:
    with all_firms("test"):
        return list(AuditEntry.objects.filter(target_id=str(row.pk)).order_by("pk"))


def test_what_is_made_is_checked_planned_and_audited(firm: Firm) -> None:
    row = schedule(firm, cron="0 3 * * *", time_zone="Europe/Vienna", job_type="noop")
    assert now(row).next_run_at == START.replace(day=16, hour=2)
    assert now(row).payload == {"version": "1.0"}
    (entry,) = audited(row)
    assert (entry.act, entry.after["cron"], entry.firm_id) == (
        "schedule.create",
        "0 3 * * *",
        firm.pk,
    )


@pytest.mark.req("T-05")
def test_the_log_holds_no_secret_of_a_tasks_call(firm: Firm) -> None:
    signed_in = task_call(kwargs={"host": "a", "password": "hunter2"})
    row = schedule(firm, job_type="django_task", payload=signed_in)
    changed = task_call(kwargs={"host": "b", "password": "hunter3"})
    change_schedule(row, payload=changed)
    assert now(row).payload == {"version": "1.0", **changed}
    entries = audited(row)
    assert [entry.after["payload"]["kwargs"]["host"] for entry in entries] == ["a", "b"]
    assert "hunter" not in str([(entry.before, entry.after) for entry in entries])


@pytest.mark.parametrize(
    ("columns", "faults"),
    [
        ({"cron": "at noon"}, {"cron": "invalid"}),
        ({"time_zone": "Mars/Olympus"}, {"time_zone": "invalid"}),
        ({"interval_seconds": 60, "cron": "* * * * *"}, {"cron": "invalid"}),
        ({"name": ""}, {"name": "invalid"}),
        ({"name": "x" * 101}, {"name": "invalid"}),
        ({"name": "a\x00"}, {"name": "nul"}),
        ({"name": "\ud800"}, {"name": "surrogate"}),
        ({"interval_seconds": 60.5}, {"interval_seconds": "wrong_type"}),
        ({"interval_seconds": True}, {"interval_seconds": "wrong_type"}),
        ({"interval_seconds": "60"}, {"interval_seconds": "wrong_type"}),
        ({"priority": 7}, {"priority": "invalid"}),
        ({"missed_runs": "all"}, {"missed_runs": "invalid"}),
        ({"target": "world"}, {"target": "invalid"}),
        ({"job_type": "nope"}, {"job_type": "unknown_type"}),
        ({"target": "every_firm"}, {"target": "invalid"}),
        ({"target": "every_member"}, {"group_name": "invalid"}),
        ({"group_name": "box"}, {"group_name": "unknown_group"}),
        ({"payload": {"colour": "red"}}, {"payload.colour": "unknown_field"}),
        ({"payload": {"token": "x"}}, {"payload.token": "secret_key"}),
        ({"payload": {"tenant_id": 1}}, {"payload.tenant_id": "reserved"}),
        ({"job_type": "test.post"}, {"payload.box": "missing"}),
    ],
)
def test_what_could_not_run_is_refused_by_field(
    firm: Firm, mail_type: None, columns: dict[str, Any], faults: dict[str, str]
) -> None:
    with pytest.raises(ScheduleInvalid) as refused:
        schedule(firm, **columns)
    found = {fault["field"]: fault["code"] for fault in refused.value.errors}
    assert found.items() >= faults.items()


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (Decimal("1.50"), "1.50"),
        (date(2026, 1, 31), "2026-01-31"),
        (timedelta(minutes=1), "P0DT00H01M00S"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_payload_takes_what_enqueue_takes(
    firm: Firm, job_types: dict[str, Any], given: Any, stored: str
) -> None:
    class AnyPayload(JobPayload):
        how: Any

    job("test.any", category="sync", payload=AnyPayload)(lambda payload, ctx: None)
    row = schedule(firm, job_type="test.any", payload={"how": given})
    assert now(row).payload == {"version": "1.0", "how": stored}
    change_schedule(row, payload={"how": [given]})
    assert now(row).payload["how"] == [stored]
    tick_at(START + MINUTE)
    assert [one.payload["how"] for one in jobs()] == [[stored]]


def test_what_a_groups_members_bring_may_be_left_out(
    firm: Firm, mail_type: None, groups: Callable[[list[Member]], list[GroupRequest]]
) -> None:
    groups([])
    schedule(firm, job_type="test.post", target="every_member", group_name="box")
    with pytest.raises(ScheduleInvalid) as refused:
        schedule(
            firm,
            name="other",
            job_type="test.post",
            target="every_member",
            group_name="box",
            payload={"text": 1},
        )
    assert [fault["field"] for fault in refused.value.errors] == ["payload.text"]


def test_a_name_is_taken_once_in_a_firm(firm: Firm, other_firm: Firm) -> None:
    schedule(firm, name="nightly")
    schedule(other_firm, name="nightly")
    with pytest.raises(ScheduleInvalid) as refused:
        schedule(firm, name="nightly")
    assert [(fault["field"], fault["code"]) for fault in refused.value.errors] == [
        ("name", "taken")
    ]


def test_an_operation_writes_the_columns_that_it_changes_and_no_others(firm: Firm) -> None:
    row = schedule(firm, name="nightly")
    with CaptureQueriesContext(connection) as queries:
        pause(row)
    (update,) = [one["sql"] for one in queries if 'UPDATE "jobs_schedule"' in one["sql"]]
    written = re.findall(r'"(\w+)" = ', update.partition(" WHERE ")[0])
    assert written == ["enabled", "updated_at"]


def test_another_fault_of_the_database_is_no_taken_name(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = schedule(firm, name="nightly")

    def refuse(*_: Any, **__: Any) -> None:
        raise IntegrityError("another constraint")

    monkeypatch.setattr(Schedule, "save", refuse)
    with pytest.raises(IntegrityError, match="another constraint"):
        pause(row)


def test_the_firm_in_scope_is_the_owner(firm: Firm, other_firm: Firm) -> None:
    with firm_scope(other_firm):
        row = create_schedule("nightly", "noop", cron="0 3 * * *")
    assert row.firm_id == other_firm.pk
    with pytest.raises(MissingTenant, match=r"^create_schedule: there are several firms"):
        create_schedule("nightly", "noop", cron="0 3 * * *")


def test_run_now_leaves_the_slots_as_they_are(firm: Firm) -> None:
    row = schedule(firm)
    assert run_now(row, reason="asked for") == 1
    assert run_now(row) == 1
    assert len(jobs()) == 2
    assert all(job.idempotency_key.startswith(f"schedule:{row.pk}:run:") for job in jobs())
    assert now(row).next_run_at == START + MINUTE
    assert now(row).last_run_at is not None
    assert [(entry.act, entry.reason) for entry in audited(row)[1:]] == [
        ("schedule.run", "asked for"),
        ("schedule.run", ""),
    ]


def test_a_refused_run_names_the_field_of_the_schedules_payload(
    firm: Firm, other_firm: Firm, system_firm: Firm, mail_type: None
) -> None:
    row = schedule(
        system_firm,
        job_type="test.post",
        payload={"box": "1"},
        target=ScheduleTarget.EVERY_FIRM,
    )
    with all_firms("test"):
        Schedule.objects.filter(pk=row.pk).update(payload={})
    with pytest.raises(WrongState, match=r"refused: box: "):
        run_now(row)


def test_run_now_says_why_it_leads_to_nothing(firm: Firm, mail_type: None) -> None:
    row = schedule(firm, job_type="test.post", payload={"box": "1"})
    with all_firms("test"):
        Schedule.objects.filter(pk=row.pk).update(payload={})
    with pytest.raises(WrongState, match="box"):
        run_now(row)
    Firm.objects.filter(pk=firm.pk).update(active=False)
    with pytest.raises(WrongState, match="not active"):
        run_now(row)
    assert jobs() == []


def test_a_paused_schedule_rests_and_goes_on_without_making_up(firm: Firm) -> None:
    row = schedule(firm, cron="0 * * * *", missed_runs=MissedRuns.RUN_ONCE)
    pause(row, reason="quiet please")
    with pytest.raises(WrongState, match="paused already"):
        pause(row)
    assert tick_at(START + 2 * HOUR) == []
    with stopped_at(START + 2.5 * HOUR):
        assert resume(row).next_run_at == START + 3 * HOUR
    with pytest.raises(WrongState, match="is not paused"):
        resume(row)
    tick_at(START + 3 * HOUR)
    assert slots() == [START + 3 * HOUR]
    assert [(entry.act, entry.before, entry.after) for entry in audited(row)[1:]] == [
        ("schedule.pause", {"enabled": True}, {"enabled": False}),
        ("schedule.resume", {"enabled": False}, {"enabled": True}),
    ]


def test_resuming_before_the_clock_jumped_back_runs_no_slot_again(firm: Firm) -> None:
    row = schedule(firm, cron="0 * * * *")
    tick_at(START + HOUR)
    with stopped_at(START + 0.9 * HOUR):
        pause(row)
        assert resume(row).next_run_at == START + 2 * HOUR


@pytest.mark.parametrize("is_due", [False, True])
@pytest.mark.parametrize(
    ("stored", "why"),
    [
        ({"cron": "0 25 * * *"}, "cron: "),
        ({"cron": "0 0 30 2 *"}, "cron: "),
        ({"time_zone": "Mars/Olympus"}, "time_zone: 'Mars/Olympus' is no time zone"),
        ({"cron": None, "interval_seconds": 10**15}, "interval_seconds: must be from 1 to"),
    ],
)
def test_a_timetable_that_cannot_be_used_is_not_resumed(
    firm: Firm, stored: dict[str, Any], why: str, is_due: bool
) -> None:
    row = schedule(firm, cron="0 * * * *")
    pause(row)
    # An older version, or a host with other time zones, may have stored such a timetable.
    with all_firms("test"):
        Schedule.objects.filter(pk=row.pk).update(**stored)
    with (
        stopped_at(START + 2 * HOUR if is_due else START),
        pytest.raises(WrongState, match=f"^schedule test cannot be resumed: {why}"),
    ):
        resume(row)
    assert not now(row).enabled
    assert [entry.act for entry in audited(row)] == ["schedule.create", "schedule.pause"]


def test_a_change_of_the_timetable_begins_from_now_on(firm: Firm) -> None:
    row = schedule(firm, cron="0 3 * * *")
    with stopped_at(START + HOUR):
        change_schedule(row, cron=None, interval_seconds=600, reason="more often")
        assert now(row).next_run_at == START + HOUR + 10 * MINUTE
    with stopped_at(START + 2 * HOUR):
        change_schedule(row, priority=1)
        assert now(row).next_run_at == START + HOUR + 10 * MINUTE
    with pytest.raises(ScheduleInvalid):
        change_schedule(row, interval_seconds=0)
    assert now(row).interval_seconds == 600
    first, second = audited(row)[1:]
    assert first.before == {"cron": "0 3 * * *", "interval_seconds": None}
    assert first.after == {"cron": None, "interval_seconds": 600}
    assert second.after == {"priority": 1}


@pytest.mark.req("T-03")
def test_a_schedule_out_of_sight_is_not_found(firm: Firm, other_firm: Firm) -> None:
    row = schedule(other_firm)
    for act in (run_now, pause, resume, change_schedule):
        with firm_scope(firm), pytest.raises(UnknownJob):
            act(row)
    for nothing in (uuid4(), "nonsense"):
        with pytest.raises(UnknownJob):
            pause(nothing)


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Declare one default schedule, whose interval the test sets."""
    setting = {"every": 3600}
    monkeypatch.setattr(defaults, "_defaults", {})
    default_schedule("purge", "purge_jobs", every_seconds=lambda: setting["every"])
    return setting


def shipped_row() -> Schedule:
    with all_firms("test"):
        row: Schedule = Schedule.objects.get(name="purge")
        return row


@pytest.mark.req("S-02")
def test_what_ships_is_stored_once_and_follows_its_setting(
    system_firm: Firm, declared: dict[str, int]
) -> None:
    with stopped_at(START):
        store_default_schedules()
    with stopped_at(START + 10 * MINUTE):
        store_default_schedules()
    row = shipped_row()
    assert (row.firm_id, row.target) == (system_firm.pk, ScheduleTarget.FIRM)
    assert row.next_run_at == START + HOUR
    declared["every"] = 1800
    with stopped_at(START + 20 * MINUTE):
        store_default_schedules()
    assert (shipped_row().interval_seconds, shipped_row().next_run_at) == (
        1800,
        START + 50 * MINUTE,
    )


@pytest.mark.req("S-02")
def test_what_an_operator_changed_stays_changed(
    system_firm: Firm, declared: dict[str, int]
) -> None:
    with stopped_at(START):
        store_default_schedules()
        change_schedule(shipped_row(), cron="0 4 * * *", interval_seconds=None)
        pause(shipped_row())
    declared["every"] = 1800
    with stopped_at(START + DAY):
        store_default_schedules()
    row = shipped_row()
    assert (row.cron, row.interval_seconds, row.enabled) == ("0 4 * * *", None, False)


@pytest.mark.req("S-02")
def test_what_nobody_changed_goes_on_following_the_code(
    system_firm: Firm, declared: dict[str, int]
) -> None:
    with stopped_at(START):
        store_default_schedules()
        change_schedule(shipped_row(), interval_seconds=7200)
    default_schedule(
        "purge",
        "purge_jobs",
        every_seconds=lambda: declared["every"],
        payload={"version": "1.1"},
        priority=3,
    )
    with stopped_at(START + 3 * HOUR):
        store_default_schedules()
    row = shipped_row()
    assert (row.payload, row.priority) == ({"version": "1.1"}, 3)
    assert (row.interval_seconds, row.next_run_at) == (7200, START + 2 * HOUR)


@pytest.mark.req("S-02")
def test_a_host_without_the_operators_time_zone_leaves_the_change_to_others(
    system_firm: Firm,
    declared: dict[str, int],
    poor_host: Callable[[], AbstractContextManager[None]],
) -> None:
    with stopped_at(START):
        store_default_schedules()
        change_schedule(shipped_row(), time_zone="Europe/Vienna")
    declared["every"] = 1800
    with poor_host(), stopped_at(START + MINUTE):
        store_default_schedules()
    assert (shipped_row().interval_seconds, shipped_row().next_run_at) == (3600, START + HOUR)
    with stopped_at(START + MINUTE):
        store_default_schedules()
    assert shipped_row().interval_seconds == 1800


@pytest.mark.req("S-02")
def test_a_new_declaration_leaves_a_run_that_is_due(
    system_firm: Firm, declared: dict[str, int]
) -> None:
    with stopped_at(START):
        store_default_schedules()
    default_schedule("purge", "purge_jobs", every_seconds=lambda: declared["every"], priority=3)
    with stopped_at(START + 2 * HOUR):
        store_default_schedules()
    assert (shipped_row().priority, shipped_row().next_run_at) == (3, START + HOUR)


@pytest.mark.req("S-02")
def test_a_schedule_that_somebody_made_under_the_same_name_is_left_alone(
    system_firm: Firm, declared: dict[str, int]
) -> None:
    schedule(system_firm, name="purge", job_type="noop")
    store_default_schedules()
    assert shipped_row().job_type == "noop"


@pytest.mark.req("S-02", "J-22")
def test_the_queue_ships_its_purge() -> None:
    declaration, every_seconds = defaults._defaults["Purge old jobs"]
    assert declaration["job_type"] == "purge_jobs"
    assert every_seconds() == 24 * 3600
