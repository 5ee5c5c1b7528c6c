"""A tick: a due slot becomes jobs once, and missed slots run as the schedule says."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.db import OperationalError, connection

from jobs import registry
from jobs.engine.clock import stopped_at
from jobs.engine.transactions import in_transaction
from jobs.models import Schedule, ScheduleRun
from jobs.schedules import tick as tick_module
from jobs.schedules.groups import GroupRequest, Member
from jobs.schedules.left import record_missing_zones, record_unknown_types
from jobs.schedules.tick import GRACE_SECONDS, PAGE, tick
from jobs.states import MissedRuns, ScheduleTarget
from jobs.worker.scheduler import Scheduler
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.tenants import FirmFactory
from tests.jobs.schedules.kit import (
    DAY,
    HOUR,
    MINUTE,
    START,
    at,
    doubles,
    jobs,
    now,
    schedule,
    slots,
    tick_at,
    tick_through,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("S-01")]

SECOND = timedelta(seconds=1)


def test_a_slot_becomes_a_job_when_it_is_due_and_not_before(firm: Firm) -> None:
    row = schedule(firm, priority=1)
    assert row.next_run_at == START + MINUTE
    assert tick_at(START + MINUTE - SECOND) == []
    assert jobs() == []

    (fired,) = tick_at(START + MINUTE)

    (job,) = jobs()
    key = f"schedule:{row.pk}:20260115T120100Z"
    assert (job.idempotency_key, job.correlation_id) == (key, key)
    assert (job.firm_id, job.job_type, job.priority) == (firm.pk, "noop", 1)
    assert job.payload == {"tenant_id": firm.pk, "version": "1.0", "correlation_id": key}
    assert (fired.jobs, fired.slot) == (1, START + MINUTE)
    assert now(row).last_run_at == START + MINUTE
    assert now(row).next_run_at == START + 2 * MINUTE


def test_every_slot_runs_once_however_often_one_ticks(firm: Firm) -> None:
    schedule(firm, interval_seconds=60)
    tick_through(START, START + HOUR, timedelta(seconds=7))
    assert slots() == [START + number * MINUTE for number in range(1, 60)]


def test_an_interval_is_not_shifted_by_late_ticks(firm: Firm) -> None:
    row = schedule(firm, interval_seconds=60)
    tick_at(START + 1 * MINUTE + 40 * SECOND)
    tick_at(START + 2 * MINUTE + 55 * SECOND)
    assert now(row).next_run_at == START + 3 * MINUTE
    assert slots() == [START + MINUTE, START + 2 * MINUTE]


@pytest.mark.parametrize("missed_runs", list(MissedRuns))
def test_after_hours_without_workers_a_run_is_skipped_or_made_up_for_once(
    firm: Firm, missed_runs: MissedRuns
) -> None:
    row = schedule(firm, cron="30 * * * *", missed_runs=missed_runs)
    back = START + 4 * HOUR
    tick_at(back)
    tick_at(back + SECOND)
    made_up = {MissedRuns.SKIP: [], MissedRuns.RUN_ONCE: [START + 3.5 * HOUR]}
    assert slots() == made_up[missed_runs]
    assert now(row).next_run_at == START + 4.5 * HOUR
    tick_at(START + 4.5 * HOUR)
    assert slots() == [*made_up[missed_runs], START + 4.5 * HOUR]


def test_a_slot_that_is_a_little_late_runs_even_where_missed_ones_are_skipped(firm: Firm) -> None:
    schedule(firm, cron="30 * * * *")
    tick_at(START + 30 * MINUTE + timedelta(seconds=GRACE_SECONDS))
    assert slots() == [START + 30 * MINUTE]
    tick_at(START + 90 * MINUTE + timedelta(seconds=GRACE_SECONDS + 1))
    assert slots() == [START + 30 * MINUTE]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("2026-03-28 12:00", "2026-03-30 12:00", ["2026-03-29 01:00", "2026-03-30 00:30"]),
        ("2026-10-24 12:00", "2026-10-26 12:00", ["2026-10-25 00:30", "2026-10-26 01:30"]),
    ],
)
def test_the_days_on_which_the_clock_is_changed(
    firm: Firm, start: str, end: str, expected: list[str]
) -> None:
    schedule(firm, created=at(start), cron="30 2 * * *", time_zone="Europe/Vienna")
    tick_through(at(start), at(end), 10 * MINUTE)
    assert slots() == [at(moment) for moment in expected]


def test_a_clock_that_jumps_back_runs_nothing_twice(firm: Firm) -> None:
    row = schedule(firm)
    for moment in (1, 2, 3, 1, 2, 3, 2, 4, 1, 5):
        tick_at(START + moment * MINUTE)
    assert slots() == [START + number * MINUTE for number in range(1, 6)]
    assert now(row).next_run_at == START + 6 * MINUTE


def test_a_tick_that_is_lost_before_its_commit_leaves_the_slot_to_the_next(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = schedule(firm)

    class Lost(BaseException):
        pass

    def lose(*_: object, **__: object) -> bool:
        raise Lost

    with monkeypatch.context() as patch:
        patch.setattr(tick_module, "advance", lose)
        with pytest.raises(Lost):
            tick_at(START + MINUTE)
    assert jobs() == []
    assert now(row).next_run_at == START + MINUTE
    tick_at(START + MINUTE)
    assert slots() == [START + MINUTE]


def test_the_move_goes_forward_alone(firm: Firm) -> None:
    """This is what a scheduler without the lock would do after another one has run the slot."""
    stale = schedule(firm)
    tick_at(START + MINUTE)
    moved = in_transaction(
        lambda: tick_module.advance(stale, START + 10 * MINUTE, ran=True, error=None)
    )
    assert moved is False
    assert now(stale).next_run_at == START + 2 * MINUTE


def test_the_move_enables_nothing_that_was_paused_meanwhile(firm: Firm) -> None:
    stale = schedule(firm)
    with all_firms("test"):
        Schedule.objects.filter(pk=stale.pk).update(enabled=False)
    moved = in_transaction(lambda: tick_module.advance(stale, START + MINUTE, ran=True, error=None))
    assert moved is False
    assert not now(stale).enabled


def test_schedules_of_inactive_firms_rest_until_they_are_back(firm: Firm) -> None:
    schedule(firm, cron="0 * * * *", missed_runs=MissedRuns.RUN_ONCE)
    Firm.objects.filter(pk=firm.pk).update(active=False)
    tick_at(START + 3 * HOUR)
    assert jobs() == []
    Firm.objects.filter(pk=firm.pk).update(active=True)
    tick_at(START + 3 * HOUR)
    assert slots() == [START + 3 * HOUR]


@pytest.mark.req("T-04")
def test_a_schedule_of_every_firm_reaches_the_active_ones(
    firm: Firm, other_firm: Firm, system_firm: Firm
) -> None:
    FirmFactory(name="Gone", slug="gone", active=False)
    row = schedule(system_firm, target=ScheduleTarget.EVERY_FIRM)
    tick_at(START + MINUTE)
    assert {job.firm_id for job in jobs()} == {firm.pk, other_firm.pk}
    assert {job.idempotency_key for job in jobs()} == {
        f"schedule:{row.pk}:20260115T120100Z:{owner.pk}" for owner in (firm, other_firm)
    }


def test_a_schedule_of_every_firm_runs_while_none_is_active(firm: Firm, system_firm: Firm) -> None:
    Firm.objects.filter(pk=firm.pk).update(active=False)
    row = schedule(system_firm, target=ScheduleTarget.EVERY_FIRM)
    (result,) = tick_at(START + MINUTE)
    assert (result.jobs, result.error, now(row).last_error) == (0, "", "")
    assert now(row).last_run_at is not None


def test_a_group_is_reached_member_by_member(
    firm: Firm,
    other_firm: Firm,
    system_firm: Firm,
    mail_type: None,
    groups: Callable[[list[Member]], list[GroupRequest]],
) -> None:
    gone = FirmFactory(name="Gone", slug="gone", active=False)
    members = [
        Member(owner.pk, key=f"{owner.slug}-{number}", payload={"box": f"{number}"})
        for owner in (firm, other_firm, gone)
        for number in range(PAGE // 2 + 1)
    ]
    asked = groups(members)
    row = schedule(
        system_firm,
        job_type="test.post",
        payload={"text": "hello"},
        target=ScheduleTarget.EVERY_MEMBER,
        group_name="box",
    )
    tick_at(START + MINUTE)
    assert [reach.firm_id for reach in asked] == [None]
    made = jobs()
    assert len(made) == 2 * (PAGE // 2 + 1)
    assert {job.firm_id for job in made} == {firm.pk, other_firm.pk}
    assert {job.payload["text"] for job in made} == {"hello"}
    assert made[0].idempotency_key == f"schedule:{row.pk}:20260115T120100Z:acme-0"
    assert {job.correlation_id for job in made} == {f"schedule:{row.pk}:20260115T120100Z"}


def test_a_firms_own_schedule_never_reaches_anothers_members(
    firm: Firm,
    other_firm: Firm,
    mail_type: None,
    groups: Callable[[list[Member]], list[GroupRequest]],
) -> None:
    asked = groups([Member(other_firm.pk, key="1", payload={"box": "1"})])
    row = schedule(firm, job_type="test.post", target=ScheduleTarget.EVERY_MEMBER, group_name="box")
    tick_at(START + MINUTE)
    assert [reach.firm_id for reach in asked] == [firm.pk]
    assert jobs() == []
    assert "another firm" in now(row).last_error


def test_members_with_a_key_of_their_own_coalesce_with_what_waits(
    system_firm: Firm,
    firm: Firm,
    mail_type: None,
    groups: Callable[[list[Member]], list[GroupRequest]],
) -> None:
    groups([Member(firm.pk, key="1", payload={"box": "1"}, idempotency_key="box:1")])
    schedule(
        system_firm,
        job_type="test.post",
        target=ScheduleTarget.EVERY_MEMBER,
        group_name="box",
    )
    tick_at(START + MINUTE)
    (fired,) = tick_at(START + 2 * MINUTE)
    assert fired.jobs == 0
    assert [job.idempotency_key for job in jobs()] == ["box:1"]


def test_one_schedule_that_fails_shows_why_and_holds_up_no_other(
    firm: Firm, system_firm: Firm, groups: Callable[[list[Member]], list[GroupRequest]]
) -> None:
    groups([])
    good = schedule(firm, name="good")
    refused = schedule(firm, name="refused")
    unreadable = schedule(firm, name="unreadable")
    with all_firms("test"):
        Schedule.objects.filter(pk=refused.pk).update(payload={"colour": "ann@acme.example"})
        Schedule.objects.filter(pk=unreadable.pk).update(cron="at noon")
    found = {one.schedule_id: one for one in tick_at(START + MINUTE)}
    assert [job.correlation_id.split(":")[1] for job in jobs()] == [str(good.pk)]
    assert "colour" in now(refused).last_error
    assert found[str(refused.pk)].error == now(refused).last_error
    assert now(refused).next_run_at == START + 2 * MINUTE
    assert now(refused).last_run_at is None
    assert now(unreadable).enabled is False
    assert "cron" in now(unreadable).last_error
    with all_firms("test"):
        Schedule.objects.filter(pk=refused.pk).update(payload={})
    tick_at(START + 2 * MINUTE)
    assert now(refused).last_error == ""


def test_a_slot_that_fails_is_a_run_without_jobs_that_says_why(firm: Firm) -> None:
    row = schedule(firm)
    with all_firms("test"):
        Schedule.objects.filter(pk=row.pk).update(payload={"colour": "blue"})
    (result,) = tick_at(START + MINUTE)
    assert (result.jobs, result.slot) == (0, START + MINUTE)
    with all_firms("test"):
        (run,) = ScheduleRun.objects.filter(schedule_id=row.pk)
    assert (run.slot, run.jobs, run.outcome) == (START + MINUTE, 0, "refused")
    assert run.error == result.error == now(row).last_error
    assert run.error.startswith("PayloadInvalid: ")
    # The slot is over: it is not tried again.
    assert tick_at(START + MINUTE) == []


def test_a_database_that_goes_away_in_the_middle_is_no_failure_of_the_schedule(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = schedule(firm)

    def fail(*_: object) -> list[object]:
        raise OperationalError("it did not work")

    with monkeypatch.context() as patch:
        patch.setattr(tick_module, "enqueue_for_firms", fail)
        patch.setattr(connection, "is_usable", lambda: False)
        with pytest.raises(OperationalError):
            tick_at(START + MINUTE)
    assert now(row).last_error == ""
    tick_at(START + MINUTE)
    assert slots() == [START + MINUTE]
    with monkeypatch.context() as patch:
        patch.setattr(tick_module, "enqueue_for_firms", fail)
        tick_at(START + 2 * MINUTE)
    assert now(row).last_error == "OperationalError: it did not work"


@pytest.mark.req("J-12")
def test_a_type_this_code_does_not_know_is_left_for_newer_code(
    firm: Firm, mail_type: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = schedule(firm, job_type="test.post", payload={"box": "1"})
    newer = dict(registry._types)
    older = {name: kind for name, kind in newer.items() if name != "test.post"}

    monkeypatch.setattr(registry, "_types", older)
    assert tick_at(START + MINUTE) == []
    assert now(row).next_run_at == START + MINUTE
    for late, told in ((30, 0), (61, 1), (62, 0)):
        with stopped_at(START + MINUTE + late * SECOND):
            assert (
                in_transaction(lambda: record_unknown_types(sorted(older), GRACE_SECONDS)) == told
            )
    assert now(row).last_error == "No handler registered for job_type: test.post"

    monkeypatch.setattr(registry, "_types", newer)
    tick_at(START + 2 * MINUTE)
    assert slots() == [START + 2 * MINUTE]
    assert now(row).last_error == ""


def test_a_time_zone_that_this_host_lacks_is_left_to_other_hosts(
    firm: Firm, poor_host: Callable[[], AbstractContextManager[None]]
) -> None:
    # More than a batch, which must not keep the others from running.
    for number in range(tick_module.BATCH):
        schedule(firm, name=f"number {number}", time_zone="Europe/Vienna")
    row = schedule(firm, name="vienna", time_zone="Europe/Vienna")
    other = schedule(firm, name="lisbon", time_zone="Europe/Lisbon", created=START + MINUTE)
    with poor_host():
        (ran,) = tick_at(START + 2 * MINUTE)
        assert ran.schedule_id == str(other.pk)
        assert tick_at(START + 2 * MINUTE) == []
    left = now(row)
    assert (left.enabled, left.next_run_at, left.last_error) == (True, START + MINUTE, "")
    assert len(tick_at(START + 2 * MINUTE)) == tick_module.BATCH
    assert len(tick_at(START + 2 * MINUTE)) == 1
    assert now(row).last_run_at == START + 2 * MINUTE


def test_a_time_zone_that_no_host_has_shows_after_a_minute(
    firm: Firm, poor_host: Callable[[], AbstractContextManager[None]]
) -> None:
    row = schedule(firm, time_zone="Europe/Vienna")
    with poor_host():
        for late, told in ((30, 0), (61, 1), (62, 0)):
            with stopped_at(START + MINUTE + late * SECOND):
                assert in_transaction(lambda: record_missing_zones(["noop"], GRACE_SECONDS)) == told
    assert now(row).last_error == "No worker has the time zone: Europe/Vienna"
    assert now(row).enabled
    tick_at(START + 2 * MINUTE)
    assert now(row).last_error == ""


def test_a_worker_logs_a_time_zone_that_it_lacks_once(
    firm: Firm,
    poor_host: Callable[[], AbstractContextManager[None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    schedule(firm, time_zone="Europe/Vienna")
    scheduler = Scheduler()
    with poor_host():
        for minutes in (1, 2, 3):
            with stopped_at(START + minutes * MINUTE):
                scheduler.tick()
    told = [text for text in caplog.messages if "zone_missing" in text]
    assert len(told) == 1
    assert "Europe/Vienna" in told[0]


def test_ticking_goes_on_until_nothing_is_due(firm: Firm) -> None:
    for number in range(tick_module.BATCH + 5):
        schedule(firm, name=f"number {number}")
    with stopped_at(START + MINUTE):
        assert [len(tick()) for _ in range(3)] == [tick_module.BATCH, 5, 0]
    assert len(jobs()) == tick_module.BATCH + 5
    assert doubles(job.idempotency_key for job in jobs()) == []


def test_a_row_made_without_a_first_slot_gets_one(firm: Firm) -> None:
    before = datetime.now(UTC)
    with all_firms("test"):
        row = Schedule.objects.create(
            firm=firm, name="by hand", cron="0 3 * * *", job_type="noop", time_zone="UTC"
        )
    # It may have become three o'clock in the meantime.
    assert before < row.next_run_at <= datetime.now(UTC) + DAY


@pytest.mark.parametrize("ahead", [-2 * DAY, 2 * DAY])
def test_a_row_made_on_a_machine_with_a_wrong_clock_gets_its_slot_from_the_database(
    firm: Firm, ahead: timedelta
) -> None:
    with stopped_at(START), time_machine.travel(START + ahead), all_firms("test"):
        row = Schedule.objects.create(firm=firm, name="by hand", cron="0 3 * * *", job_type="noop")
    assert row.next_run_at == START + 15 * HOUR
