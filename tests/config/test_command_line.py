"""What each start of `manage.py` costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

COLLECTIONS = (
    "import gc, json; print(json.dumps([gc.isenabled(), gc.get_stats()[2]['collections']]))"
)
SETTINGS = (
    "import json, sys, config.settings;"
    " print(json.dumps([name for name in sys.modules if name.partition('.')[0] == 'mail']))"
)


def said(folder: Path, *arguments: str) -> object:
    """Run Python; return what it printed."""
    environment = {**os.environ, "DATABASE_URL": "", "VAR_DIR": str(folder)}
    command = [sys.executable, *arguments]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_garbage_is_looked_for_by_the_command_and_not_by_what_it_imports(tmp_path: Path) -> None:
    command = ["manage.py", "shell", "--no-imports", "-v", "0", "-c", COLLECTIONS]
    assert said(tmp_path, *command) == [True, 0]


def test_settings_import_nothing_of_the_mail_app(tmp_path: Path) -> None:
    assert said(tmp_path, "-c", SETTINGS) == []
