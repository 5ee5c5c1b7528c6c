"""What commands say if `manage.py migrate` has not run yet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from tests.support.databases import empty_database, postgresql_only
from tests.support.paths import ROOT

pytestmark = [pytest.mark.processes, pytest.mark.req("O-04")]

Manage = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def manage(
    tmp_path: Path, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[Manage]:
    """Return a function that runs a command on a database without tables."""
    with django_db_blocker.unblock(), empty_database("unmigrated", tmp_path) as url:
        environment = {**os.environ, "DATABASE_URL": url, "VAR_DIR": str(tmp_path)}

        def call(*arguments: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, str(ROOT / "manage.py"), *arguments]
            return subprocess.run(
                command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60
            )

        yield call


def test_a_command_says_in_one_line_to_migrate(manage: Manage) -> None:
    refused = manage("jobs", "list")
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    [line] = [line for line in refused.stderr.splitlines() if "jobs_jobqueue" in line]
    assert line.endswith("run manage.py migrate")
    refused = manage("jobs", "list", "--json")
    assert json.loads(refused.stdout)["detail"] in line


def test_a_worker_says_to_migrate_and_ends(manage: Manage) -> None:
    ended = manage("runworker", "--burst")
    assert ended.returncode == 1
    assert "run manage.py migrate" in ended.stdout + ended.stderr


@postgresql_only
def test_the_check_says_once_that_tables_are_missing(manage: Manage) -> None:
    checked = manage("check", "--deploy")
    assert "has lost its policy" not in checked.stderr
    [line] = [line for line in checked.stderr.splitlines() if "tables are missing" in line]
    assert "(tenants.E001)" in line
    assert line.endswith("run manage.py migrate")
