"""A program of the user's own may call `runworker`, in place of manage.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command

from jobs.states import Status
from tests.support.paths import ROOT
from tests.support.scenario import Scenario
from tests.support.workers import environment_of_workers

pytestmark = pytest.mark.req("W-01")

# The worker gets arguments that differ from the process's own command line.
PROGRAM = """
import sys
from django.core.management import execute_from_command_line
{given}
execute_from_command_line({argv})
"""
ARGUMENTS = ["worker", "runworker", "--burst", "--concurrency", "1"]


@pytest.mark.processes
@pytest.mark.parametrize(
    ("given", "argv"),
    [("", repr(ARGUMENTS)), (f"sys.argv = {ARGUMENTS!r}", "sys.argv")],
    ids=["others", "changed"],
)
def test_its_worker_starts_one_child_that_works(queue: Scenario, given: str, argv: str) -> None:
    (job_id,) = queue.add()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(given=given, argv=argv)],
        cwd=ROOT,
        env=environment_of_workers(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said
    assert said.count("serves all jobs") == 1
    assert queue.row(job_id).status == Status.COMPLETED
    queue.check()


def test_a_call_from_python_cannot_be_started_again() -> None:
    with pytest.raises(CommandError, match="argument --reload"):
        call_command("runworker", reload=True)
