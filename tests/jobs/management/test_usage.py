"""What commands say of their arguments, and of arguments that they refuse."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, load_command_class

from jobs.management.commands import runworker
from jobs.models import JobQueue, Pause
from jobs.states import Status
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.factories.jobs import JobQueueFactory

pytestmark = pytest.mark.req("O-04")

Runner = Callable[..., Any]


def help_of(capsys: pytest.CaptureFixture[str], name: str, *subcommand: str) -> str:
    """Return what `--help` prints, with one space between words."""
    parser = load_command_class("jobs", name).create_parser("manage.py", name)
    with pytest.raises(SystemExit):
        parser.parse_args([*subcommand, "--help"])
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("jobs", "list"), "only this firm; without it, every firm"),
        (("jobs", "enqueue"), "the firm that the job belongs to; required if there are several"),
        (("jobs", "chain"), "the firm that the jobs belong to; required if there are several"),
        (("breakers", "open"), "the firm whose jobs are held back; required"),
        (
            ("workers", "list"),
            "count only the running jobs of this firm; workers serve every firm",
        ),
        (("workers", "drain"), "count only the running jobs of this firm; workers serve every"),
    ],
)
def test_the_help_says_what_a_firm_is_for(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...], says: str
) -> None:
    assert f"--firm SLUG {says}" in help_of(capsys, *command)


@pytest.mark.parametrize(("name", "is_said"), [("dlq", True), ("jobs", False)])
def test_the_help_asks_for_a_reason_of_a_discard_where_one_can_discard(
    capsys: pytest.CaptureFixture[str], name: str, is_said: bool
) -> None:
    assert ("required for a discard" in help_of(capsys, name, "bulk")) is is_said


def test_the_help_says_who_gets_the_export_of_a_deleted_firm(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = help_of(capsys, "delete_firm")
    assert "export the firm first; only platform staff can download the zip" in text


def test_the_help_names_the_signals_that_stop_a_worker_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "; a second SIGTERM or SIGINT to this process stops it" in help_of(capsys, "runworker")


def test_the_help_shows_what_a_payload_looks_like(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys, "jobs", "enqueue")
    assert """--payload JSON a JSON object such as '{"name": "Ada"}'""" in text


def test_inline_is_not_optional(run: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    assert "manage.py jobs run [-h] [--json] [--firm SLUG] --inline id" in help_of(
        capsys, "jobs", "run"
    )
    refused = run("jobs", "run", "01")
    assert refused.code == 2
    assert "the following arguments are required: --inline" in refused.err


def test_too_many_arguments_get_the_usage_of_their_own_subcommand(run: Runner) -> None:
    refused = run("jobs", "enqueue", "greet", '{"name": "Ada"}')
    assert refused.code == 2
    assert "usage: manage.py jobs enqueue" in refused.err
    assert "--payload JSON" in refused.err
    assert """unrecognized arguments: {"name": "Ada"}""" in refused.err


def test_a_job_that_cannot_be_run_says_why(run: Runner, firm: Firm) -> None:
    held = JobQueueFactory(firm=firm)
    with firm_scope(firm):
        Pause.objects.create(firm=firm, reason="the partner is away")
    refused = run("jobs", "run", str(held.pk), "--inline")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(f"job {held.pk} may not run now:\n")
    assert "the partner is away" in refused.err
    assert "worker" not in refused.err
    with firm_scope(firm):
        JobQueue.objects.update(status=Status.CANCELED)
    refused = run("jobs", "run", str(held.pk), "--inline")
    assert "It is not waiting: its status is canceled." in refused.err


@pytest.mark.req("W-01")
@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--concurrency", "a whole number from 1 to 10,000"),
        ("--processes", "a whole number from 1 to 10,000"),
        ("--max-jobs", "a whole number from 1 to"),
        ("--health-port", "a whole number from 1 to 65,535"),
        ("--grace", "a number of seconds, at least 0"),
        ("--poll-interval", "a number of seconds, at least 0"),
    ],
)
@pytest.mark.parametrize("wrong", ["many", "", "-1", "nan", "\u0663", "9" * 5000])
def test_a_worker_names_an_argument_of_no_use(option: str, says: str, wrong: str) -> None:
    if "seconds" in says and wrong == "\u0663":
        pytest.skip("Python reads it as a number")
    parser = load_command_class("jobs", "runworker").create_parser("manage.py", "runworker")
    with pytest.raises(CommandError, match=f"argument {option}: must be {says}"):
        parser.parse_args([f"{option}={wrong}"])


@pytest.mark.req("W-01")
def test_a_port_that_is_taken_is_told_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = f"argument --health-port: cannot listen on 127.0.0.1:{port}: Address already in use"
        with pytest.raises(CommandError, match=f"^{re.escape(told)}$"):
            runworker._serve_health("127.0.0.1", port, lambda: True)
