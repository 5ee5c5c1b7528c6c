"""The line that `runworker` prints when it starts: as text, and as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from django.conf import settings

from jobs import VERSION
from tests.support.databases import database_url
from tests.support.paths import ROOT

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.processes,
    pytest.mark.req("W-01"),
]


def burst(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a worker until nothing is runnable."""
    environment = {"DATABASE_URL": database_url(), "VAR_DIR": str(settings.VAR_DIR)}
    return subprocess.run(
        [sys.executable, "manage.py", "runworker", "--burst", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_it_says_what_is_served() -> None:
    serving = ("--category", "sync", "--job-type", "noop", "--processes", "2")
    done = burst(*serving, "--concurrency", "5")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    first = done.stderr.splitlines()[0]
    assert first.startswith(f"Mailroom {VERSION} worker ")
    assert first.endswith(" serves sync, noop until nothing is runnable: 2 processes, 5 at a time.")


def test_with_json_it_is_the_one_object_on_stdout() -> None:
    done = burst("--category", "sync", "--queue", "default", "--concurrency", "5", "--json")
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert isinstance(said.pop("pid"), int)
    assert said == {
        "version": VERSION,
        "categories": ["sync"],
        "job_types": [],
        "queues": ["default"],
        "processes": 1,
        "concurrency": 5,
        "burst": True,
        "max_jobs": None,
        "scheduler": False,
    }
    assert " serves " not in done.stderr
