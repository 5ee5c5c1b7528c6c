"""A worker whose output goes nowhere works nevertheless."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jobs.states import Status
from tests.support.paths import ROOT
from tests.support.scenario import Scenario
from tests.support.workers import environment_of_workers

pytestmark = pytest.mark.processes


@pytest.mark.parametrize(
    "redirection",
    [">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full 2>/dev/full", "2>&1 | true"],
    ids=["no stdout", "no stderr", "none", "disk full", "reader gone"],
)
@pytest.mark.parametrize("options", ["", "--json"], ids=["words", "json"])
def test_a_worker_that_cannot_print_works(queue: Scenario, redirection: str, options: str) -> None:
    queue.add(2)
    # With `pipefail` the exit code is the worker's, also in a pipe.
    script = (
        f"set -o pipefail; {sys.executable} manage.py runworker --burst {options} {redirection}"
    )

    ended = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env=environment_of_workers(), timeout=90
    )

    assert queue.statuses() == {Status.COMPLETED: 2}
    assert ended.returncode == 0
