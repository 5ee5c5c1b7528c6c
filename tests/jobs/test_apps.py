"""What the app changes in the process that installs it."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.paths import ROOT

PROGRAM = """
import django, gc
django.setup()
print(gc.get_freeze_count(), len(gc.get_objects()))
"""


def test_no_collection_goes_through_what_was_imported() -> None:
    """A collection during a bulk call took as long as storing 6,000 jobs."""
    program = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", "DATABASE_URL": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert program.returncode == 0, program.stderr[-4000:]
    frozen, collected = map(int, program.stdout.split())
    assert frozen > 10 * collected
