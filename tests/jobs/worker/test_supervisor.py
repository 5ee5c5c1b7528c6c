"""The supervisor restarts worker processes that died, and takes its children with it."""

from __future__ import annotations

import os
import signal
import sys

import psutil  # type: ignore[import-untyped]  # its types are a package of their own
import pytest
from django.db import connection

from jobs.models import Worker
from jobs.states import Status
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet

pytestmark = [pytest.mark.processes, pytest.mark.req("W-01", "W-04")]


def living_pids() -> set[int]:
    """Return the process ids of registered workers that have not ended."""
    return {pid for pid in Worker.objects.values_list("pid", flat=True) if is_alive(pid)}


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def commands(pids: set[int]) -> set[tuple[str, ...]]:
    return {tuple(psutil.Process(pid).cmdline()) for pid in pids}


def has_database_open(pid: int) -> bool:
    process = psutil.Process(pid)
    if connection.vendor == "sqlite":
        name = str(connection.settings_dict["NAME"])
        return any(one.path.startswith(name) for one in process.open_files())
    # The supervisor has one socket, to the sidecar.
    return len(process.net_connections("all")) > 1


@pytest.mark.parametrize(
    ("arguments", "at_start", "forked"),
    [
        pytest.param([], {}, True, id="forked"),
        pytest.param([], {"AT_START": "connection"}, True, id="forked beside an open connection"),
        pytest.param([], {"AT_START": "pool"}, True, id="forked beside an open pool"),
        pytest.param([], {"AT_START": "ignored SIGCHLD"}, True, id="forked, SIGCHLD ignored"),
        pytest.param([], {"AT_START": "thread"}, False, id="another thread, so not forked"),
        pytest.param(["--spawn"], {}, False, id="told not to fork"),
    ],
)
def test_a_killed_process_is_replaced_and_its_job_done_again(
    queue: Scenario,
    fleet: Fleet,
    arguments: list[str],
    at_start: dict[str, str],
    forked: bool,
) -> None:
    gate = queue.gate()
    (job_id,) = queue.add(gate=gate)
    parent = fleet.start(
        *("--processes", "2", *arguments),
        supervised=True,
        lease_seconds=SHORT_LEASE_SECONDS,
        **at_start,
    )
    wait_until(lambda: len(living_pids()) == 2, "two processes")
    queue.wait_until_started(job_id)
    (start,) = queue.journal.starts()
    before = living_pids()
    if sys.platform.startswith("linux"):
        assert (commands(before) == commands({parent.session})) is forked
    assert not has_database_open(parent.session)

    os.kill(start.pid, signal.SIGKILL)
    gate.open()
    queue.wait_until_settled()
    wait_until(lambda: len(living_pids()) == 2, "two processes again")

    assert living_pids() != before
    assert parent.alive
    fleet.stop()
    job = queue.row(job_id)
    assert (job.status, job.attempts, job.deaths) == (Status.COMPLETED, 2, 1)
    queue.check()


def test_workers_end_with_their_parent(queue: Scenario, fleet: Fleet) -> None:
    parent = fleet.start("--processes", "2", supervised=True)
    wait_until(lambda: len(living_pids()) == 2, "two processes")

    parent.tell(signal.SIGKILL)

    wait_until(lambda: not living_pids(), "the end of both")
    assert not parent.alive


def test_a_worker_that_is_loading_ends_with_its_parent(queue: Scenario, fleet: Fleet) -> None:
    # A forked worker would have nothing to load, so this one is not forked.
    parent = fleet.start(supervised=True, AT_START="thread")
    process = psutil.Process(parent.session)

    def worker() -> psutil.Process | None:
        # The sidecar has the supervisor's own command line.
        return next((one for one in process.children() if "--child" in one.cmdline()), None)

    child = wait_until(worker, "the worker's process")
    parent.tell(signal.SIGKILL)
    assert not Worker.objects.exists()

    wait_until(lambda: not is_alive(child.pid), "its end")
    assert not Worker.objects.exists()


def test_a_burst_of_several_processes_ends_when_all_are_done(queue: Scenario, fleet: Fleet) -> None:
    queue.add(100)

    parent = fleet.start("--processes", "2", "--burst", supervised=True)

    assert parent.wait_for_exit(90) == 0
    assert queue.statuses() == {Status.COMPLETED: 100}
    queue.check()


@pytest.mark.parametrize("how", ["exit", "killed"])
def test_a_burst_goes_on_after_handlers_that_end_its_process(
    queue: Scenario, fleet: Fleet, how: str
) -> None:
    deadly = [queue.add_deadly(how, times=1) for _ in range(4)]
    queue.add(3)

    parent = fleet.start("--burst", "--concurrency", "1", supervised=True)

    assert parent.wait_for_exit(90) == 0
    assert queue.statuses() == {Status.COMPLETED: 7}
    assert [queue.row(job_id).deaths for job_id in deadly] == [1, 1, 1, 1]
    queue.check()
