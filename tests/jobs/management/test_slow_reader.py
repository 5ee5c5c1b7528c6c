"""A command whose output nobody reads blocks no other session."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jobs.models import JobQueue
from tenants.scope import all_firms
from tests.support.paths import ROOT
from tests.support.scenario import Scenario
from tests.support.workers import environment_of_workers, manage

pytestmark = pytest.mark.processes

# The lines of a list and the result of one job are each more than a pipe holds.
JOBS = 300
RESULT_LENGTH = 2**17


@pytest.mark.parametrize("subcommand", ["list", "show"])
def test_an_answer_that_waits_for_its_reader_keeps_no_transaction_open(
    queue: Scenario, subcommand: str
) -> None:
    job_id = queue.add(JOBS)[0]
    with all_firms("test"):
        JobQueue.objects.filter(pk=job_id).update(result={"text": "x" * RESULT_LENGTH})
    asked = {"list": ("--limit", "200"), "show": (str(job_id),)}[subcommand]
    command = [sys.executable, "manage.py", "jobs", subcommand, *asked, "--json"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment_of_workers(), stdout=subprocess.PIPE
    ) as listing:
        assert listing.stdout is not None
        assert listing.stdout.read(1) == b"{"
        assert listing.poll() is None

        queue.add(1)
        assert manage("jobs", "list", "--limit", "1").returncode == 0

        assert len(listing.stdout.read()) > 2**16
    assert listing.returncode == 0
