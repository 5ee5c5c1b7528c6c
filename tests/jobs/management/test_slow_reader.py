"""A command whose output nobody reads holds up nobody."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from tests.support.scenario import Scenario
from tests.support.workers import environment_of_workers, manage

pytestmark = pytest.mark.processes

# Their lines take more than a pipe holds.
JOBS = 300


def test_a_list_that_waits_for_its_reader_keeps_no_transaction_open(queue: Scenario) -> None:
    queue.add(JOBS)
    command = [sys.executable, "manage.py", "jobs", "list", "--limit", "200", "--json"]
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
