"""The history of a schedule's runs: what became of their jobs, and how long it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from uuid_utils.compat import uuid7

from interfaces.correlation import correlation
from jobs.engine.outcomes import Canceled, Completed, DeadLettered
from jobs.engine.pending_work import read_pending_work
from jobs.engine.prune import RUN_RETENTION_DAYS, prune
from jobs.engine.schedule_runs import CHUNK, follow_runs
from jobs.models import JobQueue, Schedule, ScheduleRun
from jobs.operations.schedules import run_now
from jobs.schedules import tick as tick_module
from jobs.schedules.groups import GroupRequest, Member
from jobs.states import DeadReason, MissedRuns, RunOutcome, ScheduleTarget
from tenants.models import Firm
from tenants.scope import all_firms
from tests.jobs.schedules.kit import DAY, HOUR, MINUTE, START, schedule, tick_at
from tests.queue_kit import FAILURE, finish, later, rows, take, take_one, work_off

pytestmark = [pytest.mark.django_db, pytest.mark.req("S-01")]


def the_run() -> ScheduleRun:
    """Return the only run, as it is stored."""
    (run,) = rows(ScheduleRun)
    found: ScheduleRun = run
    return found


def followed() -> ScheduleRun:
    """Let maintenance follow the runs; return the only one."""
    follow_runs(None)
    return the_run()


@pytest.fixture
def everybody(firm: Firm, monkeypatch: pytest.MonkeyPatch) -> Schedule:
    """Return a schedule that enqueues a job for each of three members."""

    def members(_: GroupRequest) -> Iterator[Member]:
        yield from (Member(firm.pk, key=name) for name in ("ann", "ben", "cid"))

    group = type("Group", (), {"name": "people", "resolver": staticmethod(members), "fields": ()})
    monkeypatch.setattr(tick_module, "find_group", lambda _: group)
    row = schedule(firm)
    with all_firms("test"):
        Schedule.objects.filter(pk=row.pk).update(
            target=ScheduleTarget.EVERY_MEMBER, group_name="people"
        )
    return row


def test_a_run_says_when_it_was_due_when_its_job_started_and_finished_and_how(firm: Firm) -> None:
    row = schedule(firm)
    tick_at(START + MINUTE)
    run = followed()
    assert (run.firm_id, run.schedule_id, run.slot) == (firm.pk, row.pk, START + MINUTE)
    assert (run.jobs, run.outcome, run.started_at, run.finished_at) == (1, None, None, None)

    work_off()
    run = followed()
    (job,) = rows(JobQueue)
    assert run.job_id == job.pk
    assert (run.outcome, run.completed, run.failed) == (RunOutcome.COMPLETED, 1, 0)
    assert (run.started_at, run.finished_at) == (job.started_at, job.completed_at)
    assert job.completed_at is not None


@pytest.mark.django_db(transaction=True)
def test_maintenance_is_called_for_as_long_as_a_run_goes_on(firm: Firm) -> None:
    assert not read_pending_work().schedule_runs
    schedule(firm)
    tick_at(START + MINUTE)
    assert read_pending_work().schedule_runs
    work_off()
    followed()
    assert not read_pending_work().schedule_runs


def test_a_run_for_many_counts_what_became_of_each_job(everybody: Schedule) -> None:
    tick_at(START + MINUTE)
    one, two, three = take(3)
    finish(one, Completed(None))
    finish(two, DeadLettered(DeadReason.FATAL, FAILURE))
    run = followed()
    assert (run.jobs, run.completed, run.failed, run.outcome) == (3, 1, 1, None)
    assert run.started_at is not None
    assert run.job_id is None

    finish(three, Canceled("asked for"))
    run = followed()
    assert (run.completed, run.failed, run.canceled) == (1, 1, 1)
    assert run.outcome == RunOutcome.FAILED


def test_a_job_that_was_deleted_counts_as_canceled(everybody: Schedule) -> None:
    tick_at(START + MINUTE)
    one, two, _ = take(3)
    finish(one, Completed(None))
    finish(two, Completed(None))
    with all_firms("test"):
        JobQueue.objects.exclude(pk__in=[one.job_id, two.job_id]).delete()
    run = followed()
    assert (run.completed, run.canceled, run.outcome) == (2, 1, RunOutcome.CANCELED)
    assert run.finished_at is not None


def test_each_run_out_of_turn_is_one_and_does_not_count_the_others_jobs(firm: Firm) -> None:
    row = schedule(firm)
    with correlation("a request"):
        run_now(row)
        run_now(row)
    first, second = take(2)
    finish(first, Completed(None))
    follow_runs(None)
    runs = {run.job_id: run for run in rows(ScheduleRun)}
    assert {run.slot for run in runs.values()} == {None}
    assert {run.correlation_id for run in runs.values()} == {"a request"}
    assert runs[first.job_id].outcome == RunOutcome.COMPLETED
    assert runs[second.job_id].outcome is None


@pytest.mark.parametrize("missed_runs", list(MissedRuns))
def test_a_run_that_was_missed_is_skipped_or_runs_late(firm: Firm, missed_runs: MissedRuns) -> None:
    schedule(firm, cron="30 * * * *", missed_runs=missed_runs)
    tick_at(START + 4 * HOUR)
    run = the_run()
    skipped = missed_runs == MissedRuns.SKIP
    assert run.outcome == (RunOutcome.SKIPPED if skipped else None)
    assert run.slot == START + 3 * HOUR + timedelta(minutes=30)
    assert (run.finished_at is not None, run.jobs) == (skipped, 0 if skipped else 1)


def test_a_run_that_enqueues_nothing_says_why(firm: Firm, everybody: Schedule) -> None:
    refused = schedule(firm, name="refused", cron="1 * * * *")
    with all_firms("test"):
        Schedule.objects.filter(pk=everybody.pk).update(enabled=False)
        Schedule.objects.filter(pk=refused.pk).update(payload={"colour": "ann@acme.example"})
    tick_at(START + MINUTE)
    run = the_run()
    assert (run.outcome, run.jobs) == (RunOutcome.REFUSED, 0)
    assert "colour" in run.error
    assert "ann@" not in run.error
    assert run.finished_at is not None


def test_a_run_whose_work_waits_already_leads_to_nothing(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule(firm)
    monkeypatch.setattr(tick_module, "slot_key", lambda *_: "schedule:same")
    tick_at(START + MINUTE)
    tick_at(START + 2 * MINUTE)
    assert [run.outcome for run in rows(ScheduleRun)] == [None, RunOutcome.NOTHING]


def test_runs_outlive_their_jobs_and_go_in_the_end(firm: Firm) -> None:
    schedule(firm)
    tick_at(START + MINUTE)
    work_off()
    with later(8 * DAY.total_seconds()):
        # The job is kept until its run knows how the job ended.
        assert prune(firm).jobs == 0
        followed()
        assert prune(firm).jobs == 1
    assert the_run().outcome == RunOutcome.COMPLETED
    with later(RUN_RETENTION_DAYS * DAY.total_seconds() - 60):
        assert prune(firm).schedule_runs == 0
    with later(RUN_RETENTION_DAYS * DAY.total_seconds() + 60):
        assert prune(firm).schedule_runs == 1
    assert rows(ScheduleRun) == []


def test_a_firm_that_keeps_its_jobs_longer_keeps_the_runs_as_long(firm: Firm) -> None:
    Firm.objects.filter(pk=firm.pk).update(retention_days=400)
    firm.refresh_from_db()
    schedule(firm)
    tick_at(START + MINUTE)
    with later(399 * DAY.total_seconds()):
        assert prune(firm).schedule_runs == 0
    with later(401 * DAY.total_seconds()):
        assert prune(firm).schedule_runs == 1


def test_following_goes_on_behind_the_last_one(firm: Firm) -> None:
    row = schedule(firm)
    tick_at(START + MINUTE)
    held = take_one()
    with all_firms("test"):
        run = ScheduleRun.objects.get()
        ScheduleRun.objects.bulk_create(
            ScheduleRun(
                firm=firm,
                schedule=row,
                job_type="noop",
                jobs=1,
                correlation_id=run.correlation_id,
                first_job_id=held.job_id,
                last_job_id=held.job_id,
                id=uuid7(),
            )
            for _ in range(CHUNK)
        )
    finish(held, Completed(None))
    last = follow_runs(None)
    assert isinstance(last, UUID)
    assert len([one for one in rows(ScheduleRun) if one.outcome is None]) == 1
    assert follow_runs(last) is None
    assert {run.outcome for run in rows(ScheduleRun)} == {RunOutcome.COMPLETED}
