"""Caps, rates and pauses under four worker processes, watched in the database while they run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from jobs.engine.transactions import reading
from jobs.models import JobQueue
from jobs.queue import pause, resume, set_rate_limit
from jobs.states import IN_FLIGHT, LIVE, Status
from tenants.models import Firm
from tests.factories.tenants import FirmFactory
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = pytest.mark.processes

WORKERS = 4
CAP = 3
KEYS = 5
# How many jobs: in the suite, and in `make chaos`.
SUITE, CHAOS = 120, 3_000
JOB_SECONDS = 0.01

RATE, BURST, RATED = 20, 5, 40
# The time from the start of a handler to the line that it writes, on a busy machine.
LATE_SECONDS = 0.5
# The database's clock shows milliseconds, and runs differently from the one for elapsed time.
CLOCK_SECONDS = 0.01


def in_flight(firm: Firm) -> int:
    """Return how many of the firm's jobs are in flight, as other sessions see it; take no lock."""
    jobs = JobQueue.objects.unscoped("watching").filter(firm=firm, status__in=IN_FLIGHT)
    return reading(jobs.count)


def is_over(firm: Firm) -> bool:
    live = JobQueue.objects.unscoped("watching").filter(firm=firm, status__in=LIVE)
    return not reading(live.exists)


@pytest.mark.req("J-23")
def test_a_cap_is_never_exceeded_while_four_workers_run(
    queue: Scenario, fleet: Fleet, chaos: bool
) -> None:
    jobs = CHAOS if chaos else SUITE
    Firm.objects.filter(pk=queue.firm.pk).update(running_cap=CAP)
    gate = queue.gate()
    # These jobs are admitted first, and fill the cap until the gate opens.
    gated = queue.add(CAP + 1, gate=gate, priority=0)
    queue.add(jobs // 2, seconds=JOB_SECONDS)
    for number in range(KEYS):
        queue.add(jobs // 2 // KEYS, seconds=JOB_SECONDS, lock_key=f"key-{number}")
    # A worker has fewer threads than the cap, and claims no jobs ahead of a type it does not know,
    # so that one worker alone cannot reach the cap.
    fleet.start_many(WORKERS, "--concurrency", str(CAP - 1))
    wait_until(lambda: in_flight(queue.firm) >= CAP, "as many jobs as the cap allows")

    seen = [in_flight(queue.firm)]
    gate.open()
    while not is_over(queue.firm):
        seen.append(in_flight(queue.firm))
    fleet.stop()

    assert max(seen) == CAP
    assert queue.statuses() == {Status.COMPLETED: jobs + len(gated)}
    assert len({start.session for start in queue.journal.starts()}) > 1
    queue.check()


@pytest.mark.req("J-24")
def test_no_stretch_of_time_has_more_starts_than_the_burst_and_what_it_adds(
    queue: Scenario, fleet: Fleet
) -> None:
    fleet.start_many(WORKERS)
    set_rate_limit("process.document", RATE, 1, burst=BURST, firm=queue.firm)
    added_at = time.monotonic()
    limited = queue.add(RATED, job_type="process.document")
    queue.add(RATED)
    queue.wait_until_settled()
    fleet.stop()

    starts = sorted(
        start.at for start in queue.journal.starts() if start.job_id in set(map(str, limited))
    )
    for first in range(RATED):
        for last in range(first, RATED):
            allowed = BURST + RATE * (starts[last] - starts[first] + LATE_SECONDS)
            assert last - first + 1 <= allowed, (first, last)
    # Counted from the enqueue, the bound holds however late a handler writes its line.
    for number, start in enumerate(starts, start=1):
        assert number <= BURST + RATE * (start - added_at + CLOCK_SECONDS), number
    assert {queue.row(job_id).attempts for job_id in limited} == {1}
    queue.check()


@pytest.mark.req("J-23")
def test_a_paused_firm_starts_nothing_more_until_it_is_resumed(
    queue: Scenario, fleet: Fleet, tmp_path: Path
) -> None:
    gate = queue.gate()
    jobs = queue.add(SUITE, gate=gate)
    fleet.start_many(2)
    wait_until(queue.journal.starts, "the first jobs")

    paused = pause(firm=queue.firm, reason="stop here")
    gate.open()
    wait_until(lambda: not in_flight(queue.firm), "what runs to end")
    started = len(queue.journal.starts())
    assert started < len(jobs)
    # By the time these jobs have run, those of the paused firm would have started.
    folder = tmp_path / "others"
    folder.mkdir()
    others = Scenario(FirmFactory(name="Globex", slug="globex"), folder)
    done = others.add(5, seconds=JOB_SECONDS)
    others.wait_until_settled(done)
    assert len(queue.journal.starts()) == started

    resume(paused)
    queue.wait_until_settled(jobs)
    fleet.stop()
    assert {queue.row(job_id).attempts for job_id in jobs} == {1}
