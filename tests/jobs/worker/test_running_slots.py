"""What a worker process writes into its running slots, and what its supervisor reads there."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import threading
from math import inf
from uuid import uuid4

import pytest

from jobs.worker.running_slots import RunningSlots, shared_file
from tests.support.paths import ROOT

pytestmark = pytest.mark.req("J-14")

RUN_AND_DIE = """
import os, sys
from jobs.worker.running_slots import RunningSlots

RunningSlots.inherited(int(sys.argv[1])).begin(5, 1.0)
os.kill(os.getpid(), 9)
"""


def both_sides(threads: int) -> tuple[RunningSlots, RunningSlots]:
    """Return the slots as the supervisor and as the worker sees them."""
    handle = shared_file(threads)
    return RunningSlots(mmap.mmap(handle, 0)), RunningSlots.inherited(handle)


def test_the_supervisor_sees_what_each_thread_runs_and_whose_claims_these_are() -> None:
    supervisor, worker = both_sides(2)
    assert (supervisor.worker_id, supervisor.running) == (None, [])
    assert supervisor.first_deadline == inf

    worker_id = uuid4()
    worker.name_worker(worker_id)
    worker.begin(7, 30.0)
    other = threading.Thread(target=worker.begin, args=(2**62, 20.0))
    other.start()
    other.join()

    assert supervisor.worker_id == worker_id
    assert supervisor.running == [7, 2**62]
    assert supervisor.first_deadline == 20.0
    worker.end()
    assert supervisor.running == [2**62]
    worker.begin(8, inf)
    assert supervisor.running == [8, 2**62]

    worker.end_in_order()
    assert (supervisor.worker_id, supervisor.running) == (None, [8, 2**62]), "stuck jobs stay"
    supervisor.clear()
    assert (supervisor.worker_id, supervisor.running) == (None, [])


def test_what_a_process_ran_is_still_there_when_it_is_gone() -> None:
    handle = shared_file(1)
    supervisor = RunningSlots(mmap.mmap(handle, 0))
    command = [sys.executable, "-c", RUN_AND_DIE, str(handle)]
    code = subprocess.run(command, pass_fds=[handle], cwd=ROOT, check=False).returncode
    os.close(handle)
    assert code == -signal.SIGKILL
    assert supervisor.running == [5]


def test_life_shows_as_a_number_that_changes() -> None:
    supervisor, worker = both_sides(1)
    before = supervisor.liveness
    worker.show_life()
    assert supervisor.liveness != before


@pytest.mark.req("W-07")
def test_jobs_that_the_supervisor_took_back_are_counted_once() -> None:
    supervisor, worker = both_sides(1)
    supervisor.add_rescued(3)
    assert worker.take_rescued() == 3
    supervisor.add_rescued(2)
    supervisor.clear()
    assert (worker.take_rescued(), worker.take_rescued()) == (2, 0)
