"""Workers of the last release run beside this tree's workers, and every job completes once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.rehearsal import LAST_RELEASE, Code, rehearse, unpack
from tests.support.paths import ROOT

pytestmark = [pytest.mark.processes, pytest.mark.req("A-03")]


@pytest.mark.timeout(900)
def test_workers_of_the_last_release_beside_those_of_this_tree(chaos: bool, tmp_path: Path) -> None:
    if not chaos:
        pytest.skip("takes a minute: make chaos")
    known = subprocess.run(["git", "cat-file", "-e", LAST_RELEASE], cwd=ROOT, capture_output=True)
    if known.returncode:
        pytest.skip("the history has no such release here")
    environment = {
        **os.environ,
        "DATABASE_URL": "",
        "VAR_DIR": str(tmp_path / "var"),
        "LOG_LEVEL": "WARNING",
        "DJANGO_SETTINGS_MODULE": "config.settings",
    }
    old = Code(unpack(LAST_RELEASE, tmp_path / "old"), environment)
    assert rehearse(old, Code(ROOT, environment)).keys() == {"completed in 1"}
