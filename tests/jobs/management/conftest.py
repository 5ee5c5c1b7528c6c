"""A fixture that runs a command in this process, as the shell would."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import Any

import pytest
from django.core.management import load_command_class
from django.core.management.base import CommandError


@dataclass(frozen=True)
class Run:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON object on stdout."""
        return json.loads(self.out)


@pytest.fixture
def run(db: None, capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Return a function: `run("jobs", "list", "--json")`."""

    def call(name: str, *arguments: str) -> Run:
        command = load_command_class("jobs", name)
        command._called_from_command_line = True  # type: ignore[attr-defined]  # as run_from_argv
        out, code, message = StringIO(), 0, ""
        try:
            options = vars(command.create_parser("manage.py", name).parse_args(list(arguments)))
            command.execute(*options.pop("args", ()), stdout=out, **options)
        except CommandError as error:
            code, message = error.returncode, str(error)
        except SystemExit as error:
            code = int(error.code or 0)
        return Run(code, out.getvalue(), message or capsys.readouterr().err)

    return call
