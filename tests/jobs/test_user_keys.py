"""A project's users may have keys of any type; jobs, operations and the audit log store them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from pytest_django import DjangoDbBlocker

from tests.support.databases import empty_database
from tests.support.paths import ROOT


@pytest.mark.processes
@pytest.mark.req("J-06")
@pytest.mark.parametrize("model", ["UuidUser", "TextUser", "EmailUser"])
def test_a_project_whose_users_have_such_keys_uses_the_queue(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path: Path, model: str
) -> None:
    with django_db_blocker.unblock(), empty_database("keyed", tmp_path) as url:
        program = subprocess.run(
            [sys.executable, "-m", "tests.support.keyed_users.program"],
            cwd=ROOT,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "tests.support.keyed_users_settings",
                "DATABASE_URL": url,
                "VAR_DIR": str(settings.VAR_DIR),
                "USER_MODEL": model,
            },
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert program.returncode == 0, program.stderr[-4000:]
