"""The clock of a machine or of the database is wrong: only time elapsed in the database counts."""

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from jobs.conf import lease_seconds
from jobs.engine import pending_work
from jobs.engine.clock import database_now
from jobs.engine.outcomes import Completed
from jobs.engine.pending_work import PendingWorkReader
from jobs.engine.rescue import RescueReport, rescue
from jobs.models import Worker
from jobs.states import Status
from jobs.worker.maintenance import Maintenance, RescueGuard
from jobs.worker.state import SharedState
from tests.queue_kit import finish, later, new_worker, take_started
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet

SETTINGS = "tests.support.wrong_clock_settings"
DAY_SECONDS = 86_400
DELAY_SECONDS = 1.0
JUMP_SECONDS = 600
NOW_SECONDS = 60


@pytest.mark.processes
@pytest.mark.req("J-14", "J-06", "W-05")
def test_workers_with_wrong_clocks_work_as_any_other(queue: Scenario, fleet: Fleet) -> None:
    gate = queue.gate()
    held = queue.add(6, gate=gate)
    workers = [
        fleet.start(
            lease_seconds=SHORT_LEASE_SECONDS,
            DJANGO_SETTINGS_MODULE=SETTINGS,
            CLOCK_AHEAD_SECONDS=str(ahead),
        )
        for ahead in (DAY_SECONDS, -DAY_SECONDS)
    ]
    wait_until(lambda: len(queue.journal.starts()) == len(held), "all held jobs started")
    assert {one.session for one in queue.journal.starts()} == {one.session for one in workers}
    beats = dict(Worker.objects.values_list("pk", "lease_expires_at"))
    queue.wait_until_leases_are_renewed(beats)
    gate.open()
    added_at = time.monotonic()
    (delayed,) = queue.add(delay=DELAY_SECONDS)
    queue.add(40)
    queue.wait_until_settled()

    (start,) = queue.journal.starts(job_id=delayed)
    assert start.at - added_at >= DELAY_SECONDS
    now = database_now()
    for worker in workers:
        said = datetime.fromisoformat(worker.wait_for("worker.started")["timestamp"])
        assert abs((said - now).total_seconds()) > DAY_SECONDS - NOW_SECONDS
    for job_id in (*held, delayed):
        job = queue.row(job_id)
        assert job.attempts == 1
        assert abs((job.completed_at - now).total_seconds()) < NOW_SECONDS
        assert abs((job.started_at - now).total_seconds()) < NOW_SECONDS
    assert not any(worker.events("jobs.rescued") for worker in workers)
    fleet.stop()
    queue.check()


@pytest.mark.req("J-09", "J-14")
def test_a_worker_rescued_too_early_since_the_clock_jumped_ahead_changes_nothing(
    queue: Scenario, settled_database: None
) -> None:
    (job_id,) = queue.add()
    held = take_started(new_worker())
    with later(JUMP_SECONDS):
        assert rescue(Random(1)).rescued == 1
    with later(JUMP_SECONDS + 1):
        again = take_started(new_worker())
        assert finish(held, Completed({"late": True})).stale
        finish(again, Completed({}))
    assert queue.row(job_id).status == Status.COMPLETED
    queue.check()


@pytest.mark.req("J-09", "J-14")
def test_a_worker_that_has_seen_nobody_dead_notices_that_the_clock_jumps_ahead(
    queue: Scenario, settled_database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.add()
    held = take_started(new_worker())
    state = SharedState()
    maintenance = Maintenance(state, PendingWorkReader())
    jump = ExitStack()
    waits = iter([lambda: None, lambda: jump.enter_context(later(JUMP_SECONDS))])

    def wait(_: float) -> bool:
        """Let the clock jump between two rounds of maintenance, and stop before a third one."""
        between = next(waits, None)
        if between is not None:
            between()
        return between is None

    monkeypatch.setattr(state.halt, "wait", wait)
    # No round may use what the last one read.
    monkeypatch.setattr(pending_work, "RECENT_SECONDS", 0.0)
    with jump:
        maintenance._loop()
        assert Worker.objects.filter(dead_at__isnull=True).count() == 1
        assert not finish(held, Completed({})).stale
    assert queue.row(held.job_id).attempts == 1
    queue.check()


@pytest.mark.req("J-09", "J-14")
def test_when_the_clock_jumps_back_nobody_dies_and_what_was_held_is_finished(
    queue: Scenario,
) -> None:
    queue.add()
    held = take_started(new_worker())
    with later(-JUMP_SECONDS):
        assert rescue(Random(1)) == RescueReport()
        assert not finish(held, Completed({})).stale
        (due_before,) = queue.add()
        finish(take_started(new_worker()), Completed({}))
    assert queue.row(due_before).status == Status.COMPLETED
    queue.check()


@pytest.mark.req("J-14")
@pytest.mark.parametrize(
    ("seconds", "active"), [(0.1, False), (0.4, False), (0.6, True), (20.0, True), (-20.0, False)]
)
def test_the_rescue_guard_is_active_after_the_database_did_not_answer(
    seconds: float, active: bool
) -> None:
    before = datetime(2026, 1, 1, tzinfo=UTC)
    guard = RescueGuard()
    guard.observe(before)
    guard.observe(before + timedelta(seconds=seconds * lease_seconds()))
    assert guard.active == active


@pytest.mark.req("J-14")
def test_a_query_that_took_long_to_arrive_marks_nobody_dead(
    queue: Scenario, settled_database: None
) -> None:
    queue.add()
    held = take_started(new_worker())
    asked_at = database_now()
    with later(lease_seconds() + 1) as now:
        assert rescue(Random(1), asked_at=asked_at) == RescueReport()
        assert rescue(Random(1), asked_at=now).workers == 1
        assert finish(held, Completed({})).stale
    assert queue.row(held.job_id).status == Status.PENDING
    queue.check()
