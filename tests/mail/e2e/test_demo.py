"""The whole path as people run it: commands and worker processes, nothing configured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from sqlite3 import connect
from typing import Any

import pytest
from django.db import connection

from mail.llm.base import Category
from tests.mail.mail_kit import OWNER, letter
from tests.support.databases import sqlite_only
from tests.support.paths import ROOT

# Without configuration, the database is SQLite.
pytestmark = [pytest.mark.processes, sqlite_only, pytest.mark.django_db]

CONFIGURED = ("DATABASE_URL", "GMAIL_BACKEND", "SYNC_FULL_DAYS")


def manage(var_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of a service that keeps everything in `var_dir`."""
    environment = {key: value for key, value in os.environ.items() if key not in CONFIGURED}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**environment, "VAR_DIR": str(var_dir), "DJANGO_SETTINGS_MODULE": "config.settings"},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def var_dir(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a service whose tables exist."""
    folder = tmp_path_factory.mktemp("service")
    source = connect(connection.settings_dict["NAME"])
    target = connect(folder / "mailroom.sqlite3")
    with closing(source), closing(target):
        source.backup(target)
    return folder


def demo(var_dir: Path, *arguments: str) -> dict[str, Any]:
    """Run the demo and return what it found."""
    finished = manage(var_dir, "demo", "--json", *arguments)
    assert finished.returncode == 0, finished.stderr
    result: dict[str, Any] = json.loads(finished.stdout)
    return result


@pytest.mark.req("E-01", "M-03")
def test_the_demo_shows_every_category_and_repeats_nothing(var_dir: Path) -> None:
    first = demo(var_dir)
    assert first["messages"] == first["imported"] >= 55
    assert set(first["decisions"]) == set(Category)
    decided = sum(first["decisions"].values())
    archived = first["actions"].pop("archive")["completed"]
    assert archived >= 5
    drafted = first["drafts"]["template"].pop("ready")
    assert first["drafts"] == {"template": {}}
    assert 1 <= drafted <= first["decisions"]["needs_response"]
    # A draft that comes before the label of its thread's category takes that label's place.
    labels = [first["actions"].pop(one, {}) for one in ("apply_label", "remove_label")]
    assert set(labels[0]) | set(labels[1]) <= {"completed", "canceled"}
    assert sum(labels[0].values()) == decided + drafted
    assert first["actions"] == {"forward": {"approved_pending": 1}, "undo": {"completed": 1}}
    assert first["approvals_waiting"] == 1
    assert {one["category"] for one in first["examples"]} == set(Category)
    assert all(one["rationale"] for one in first["examples"])
    assert set(first["jobs"]) == {"completed"}
    assert first["dead_letters"] == 0

    second = demo(var_dir)
    assert (second["imported"], second["already_there"]) == (0, first["imported"])
    assert second["actions"].pop("archive")["completed"] == archived
    assert second["drafts"]["template"].pop("ready") == drafted
    assert [second["actions"].pop(one, {}) for one in ("apply_label", "remove_label")] == labels
    for what in ("messages", "threads", "decisions", "actions", "approvals_waiting"):
        assert second[what] == first[what]
    assert second["dead_letters"] == 0
    # The second run adds one backfill and one sync, which find nothing to do.
    assert second["jobs"]["completed"] == first["jobs"]["completed"] + 2


@pytest.mark.req("E-01", "M-03")
def test_the_demo_reads_ones_own_mail(var_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mail"
    folder.mkdir()
    (folder / "good.eml").write_bytes(letter())
    (folder / "bad.txt").write_text("no mail")
    finished = manage(var_dir, "demo", "--mail", str(folder))
    assert finished.returncode == 0, finished.stderr
    # The owner was not given, so the demo takes the address that the mail was sent to.
    assert OWNER in finished.stdout
    assert "bad.txt" in finished.stderr
    assert "Where to look next" in finished.stdout


@pytest.mark.req("E-01", "M-03")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--mail", ".", "--address", "no address"], "'no address' is not a mail address"),
        (["--address", OWNER], "--address needs --mail"),
    ],
)
def test_the_demo_refuses_an_address_it_cannot_use(
    var_dir: Path, options: list[str], said: str
) -> None:
    finished = manage(var_dir, "demo", *options)
    assert finished.returncode == 1
    assert said in finished.stderr


@pytest.mark.req("E-01")
def test_the_demo_names_mail_that_is_not_there(var_dir: Path) -> None:
    finished = manage(var_dir, "demo", "--mail", "/no/such/mail")
    assert finished.returncode == 3
    assert "/no/such/mail does not exist" in finished.stderr
