"""What commands say if the database cannot be used, or if they are interrupted."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, OperationalError, ProgrammingError

from interfaces.commands import JsonCommand, Refused
from tests.support.paths import ROOT

pytestmark = pytest.mark.req("O-04")

# No server listens at this port.
NO_SERVER = "postgres://mailroom:secretword@127.0.0.1:1/mailroom"


class Failing(JsonCommand):
    """A command that raises the error that a test sets."""

    error: BaseException = AssertionError()

    def handle(self, *_: Any, **__: Any) -> None:
        """Raise the error."""
        raise self.error


def failing(error: BaseException) -> Failing:
    command = Failing(stdout=io.StringIO(), stderr=io.StringIO())
    command.error = error
    return command


@pytest.mark.processes
@pytest.mark.parametrize("command", [("jobs", "list"), ("purge_jobs",), ("demo",)])
def test_a_server_that_is_not_there_is_told_in_one_line(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    ended = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *command, "--json"],
        env={**os.environ, "DATABASE_URL": NO_SERVER, "VAR_DIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "secretword" not in ended.stderr + ended.stdout
    refusal = json.loads(ended.stdout)
    assert refusal["code"] == "database_unusable"
    assert "127.0.0.1" in refusal["detail"]
    [line] = [line for line in ended.stderr.splitlines() if "cannot be used" in line]
    assert refusal["detail"] in line


@pytest.mark.django_db
@pytest.mark.parametrize(
    "error",
    [
        OperationalError("unable to open database file"),
        OperationalError("attempt to write a readonly database"),
        OperationalError("database or disk is full"),
        DatabaseError("file is not a database"),
        ProgrammingError('invalid connection option "sslmod"'),
    ],
)
def test_why_the_database_cannot_be_used_is_said(error: DatabaseError) -> None:
    with pytest.raises(Refused, match=r"^the database .*cannot be used: .+") as refused:
        call_command(failing(error))
    assert str(refused.value).endswith(str(error))


@pytest.mark.django_db
def test_the_reason_hides_what_it_quotes_of_a_database_url() -> None:
    with pytest.raises(Refused) as refused:
        call_command(failing(OperationalError("no host in postgres://mailroom:secretword@/jobs")))
    assert "no host in postgres://" in str(refused.value)
    assert "secretword" not in str(refused.value)


@pytest.mark.django_db
@pytest.mark.parametrize("said", ["no such column: jobs_x.y", "table jobs_x has no column named y"])
def test_a_missing_column_is_a_migration_that_was_not_run(said: str) -> None:
    with pytest.raises(Refused, match=f"^{said}: run manage.py migrate$") as refused:
        call_command(failing(OperationalError(said)))
    assert refused.value.code == "not_migrated"


@pytest.mark.django_db
def test_a_mistake_in_a_statement_is_not_hidden() -> None:
    with pytest.raises(ProgrammingError):
        call_command(failing(ProgrammingError("syntax error at or near")))


def test_an_interrupted_command_ends_as_shells_expect() -> None:
    command = failing(KeyboardInterrupt())
    with pytest.raises(SystemExit) as ended:
        command.run_from_argv(["manage.py", "failing", "--skip-checks"])
    assert ended.value.code == 130
    assert isinstance(command.stderr._out, io.StringIO)
    assert command.stderr._out.getvalue() == "interrupted\n"
