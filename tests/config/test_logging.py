"""Every log line, whoever wrote it, has the correlation id and shows no mail and no secret."""

from __future__ import annotations

import io
import json
import logging
import logging.config
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from config.logging import FORBIDDEN_KEYS, configure_structlog, logging_config
from interfaces.correlation import correlation
from jobs.execution.events import PROBLEMS, Event, emit
from jobs.execution.telemetry import AttemptKind, FinishedAttempt, log_many
from jobs.execution.telemetry import Lines as Many
from jobs.states import Status

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Log as in production, into memory."""
    config = logging_config("json", "INFO")
    stream = io.StringIO()
    config["handlers"]["stderr"]["stream"] = stream
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    logging.config.dictConfig(config)
    configure_structlog()
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.req("O-05", "W-07")
def test_both_kinds_of_loggers_write_the_same_json_with_the_correlation_id(lines: Lines):
    with correlation("abc-123"):
        structlog.get_logger("jobs").info("job.attempt_finished", job_type="noop")
        logging.getLogger("django.request").warning("slow request", extra={"seconds": 3})
    logging.getLogger("django").info("outside")
    ours, djangos, outside = lines()
    assert ours["event"] == "job.attempt_finished"
    assert (ours["job_type"], ours["level"], ours["logger"]) == ("noop", "info", "jobs")
    assert (djangos["event"], djangos["seconds"]) == ("slow request", 3)
    assert ours["correlation_id"] == djangos["correlation_id"] == "abc-123"
    assert "correlation_id" not in outside
    assert all("timestamp" in line for line in (ours, djangos, outside))


KIND = AttemptKind(
    job_type="100%",
    tenant_id=1,
    category="sync",
    attempt=1,
    outcome="completed",
    status="completed",
    error_class=None,
    worker_id="w",
)
ATTEMPT = FinishedAttempt(job_id="0", correlation_id='100% "mine"', wait_s=0.5, run_s=0.25)


@pytest.mark.req("W-07")
@pytest.mark.parametrize("log_format", ["json", "console"])
def test_one_record_of_many_lines_is_written_line_by_line(log_format: str):
    config = logging_config(log_format, "INFO")
    stream = io.StringIO()
    config["handlers"]["stderr"]["stream"] = stream
    formatter = config["formatters"]["default"].pop("()")(**config["formatters"]["default"])
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    attempts = {KIND: [ATTEMPT], KIND._replace(attempt=2): [ATTEMPT]}
    record = logging.LogRecord("jobs", logging.INFO, "", 0, Many("job.done", attempts), (), None)
    handler.handle(record)
    first, second = stream.getvalue().splitlines()
    assert "job.done" in first
    if log_format == "json":
        assert {**json.loads(second), "timestamp": ""} == {
            **KIND._asdict(), **ATTEMPT._asdict(), "attempt": 2, "event": "job.done", "level": "info",
            "logger": "jobs", "timestamp": "",
        }  # fmt: skip


@pytest.mark.req("W-07")
@pytest.mark.parametrize("knows", [True, False])
def test_a_formatter_that_knows_nothing_of_many_lines_gets_a_record_for_each(
    knows: bool, monkeypatch: pytest.MonkeyPatch
):
    options = logging_config("console", "INFO")["formatters"]["default"]
    ours = options.pop("()")(**options)
    stream, records = io.StringIO(), []
    handler = logging.StreamHandler(stream)
    handler.setFormatter(ours if knows else logging.Formatter("%(name)s: %(job_id)s"))
    handler.addFilter(lambda record: records.append(record) is None)
    monkeypatch.setattr(logging.getLogger("jobs"), "handlers", [handler])
    monkeypatch.setattr(logging.getLogger("jobs"), "propagate", False)
    monkeypatch.setattr(logging.getLogger("jobs"), "level", logging.INFO)
    log_many("job.done", {KIND: [ATTEMPT, ATTEMPT._replace(job_id="1")]})
    assert len(records) == (1 if knows else 2)
    first, second = stream.getvalue().splitlines()
    if not knows:
        assert (first, second) == ("jobs: 0", "jobs: 1")


def console_line(**options: Any) -> str:
    """Return what is written of one record on the console."""
    config = logging_config("console", "INFO")["formatters"]["default"]
    formatter = config.pop("()")(**config)
    record = logging.LogRecord(
        "jobs", logging.INFO, "", 0, "job.done", (), options.pop("exc_info", None)
    )
    vars(record).update(options)
    return str(formatter.format(record))


@pytest.mark.req("W-07")
@given(st.text())
def test_a_console_line_names_its_values_and_is_one_line(value: str):
    line = console_line(job_type=value, outcome=Status.PENDING)
    assert line.splitlines() == [line]
    assert "level='info' event='job.done' logger='jobs'" in line
    assert f"job_type={value!r}" in line
    assert "outcome='pending'" in line


@pytest.mark.req("W-07", "O-05")
def test_the_console_shows_tracebacks_without_the_values_of_variables():
    mail_text = "hunter2"
    try:
        raise ValueError("broken")  # noqa: TRY301 - for its traceback
    except ValueError:
        shown = console_line(exc_info=sys.exc_info())
    assert "Traceback (most recent call last):\n" in shown
    assert "ValueError: broken" in shown
    assert mail_text not in shown


@pytest.mark.req("W-07")
def test_what_an_error_quotes_does_not_steer_the_terminal():
    try:
        raise ValueError("\x1b]0;title\x07\r\x9b31m")  # noqa: TRY301 - for its traceback
    except ValueError:
        shown = console_line(exc_info=sys.exc_info(), stranger="\x1b[2J")
    assert [one for one in shown if not one.isprintable()] == ["\n"] * shown.count("\n")
    assert "ValueError: \N{REPLACEMENT CHARACTER}]0;title" in shown


@pytest.mark.req("O-05")
def test_a_traceback_quotes_no_value_of_a_statement(lines: Lines):
    said = 'invalid input syntax for type integer: "divorce"'
    try:
        raise ValueError(said)  # noqa: TRY301 - for its traceback
    except ValueError:
        shown = console_line(exc_info=sys.exc_info())
        logging.getLogger("django.request").exception("Internal Server Error")
    (line,) = lines()
    for text in (shown, line["exception"]):
        assert text.rstrip().endswith(
            "ValueError: invalid input syntax for type integer: [redacted]"
        )
        assert "Traceback (most recent call last):\n" in text
    assert "exc_info" not in line


@pytest.mark.req("O-05")
@pytest.mark.parametrize("key", sorted(FORBIDDEN_KEYS))
def test_keys_that_may_carry_mail_or_secrets_are_dropped(lines: Lines, key: str):
    structlog.get_logger("jobs").info("ours", **{key: "hunter2", "kept": 1})
    logging.getLogger("theirs").info("theirs", extra={key: "hunter2", "kept": 1})
    assert len(lines()) == 2
    for line in lines():
        assert key not in line
        assert line["kept"] == 1


@pytest.mark.django_db
@pytest.mark.req("O-05", "M-14")
@pytest.mark.parametrize(
    ("method", "address", "status", "named"),
    [
        # Whoever has an approval link may decide, so the link must not be logged.
        ("options", "/approvals/2.0198c7a2.7:hunter2/", 405, "/approvals/"),
        ("post", "/approvals/2.0198c7a2.7:hunter2/", 403, "/approvals/"),
        ("get", "/approvals/hunter2", 301, None),
        ("get", "/approvals/hunter2/", 404, "/approvals/"),
        ("get", "/api/v1/mail/messages/?search=hunter2", 401, "/api/v1/mail/messages/"),
        ("get", "/nowhere/?code=hunter2", 404, "/nowhere/"),
        ("get", "/api/v1/mail/approvals/hunted/", 404, "/api/v1/mail/approvals/hunted/"),
    ],
)
def test_of_an_address_that_is_refused_neither_link_nor_query_is_logged(
    lines: Lines, method: str, address: str, status: int, named: str | None
):
    client = Client(enforce_csrf_checks=True)
    assert getattr(client, method)(address).status_code == status
    logged = lines()
    assert "hunter2" not in str(logged)
    assert not named or any(named in line["event"] for line in logged)


@pytest.mark.req("O-05")
def test_what_must_not_be_logged():
    assert {
        "payload",
        "body",
        "token",
        "secret",
        "password",
        "authorization",
        "request",
    } <= FORBIDDEN_KEYS


# The fields that the metrics read from some of the events.
FIELDS: dict[str, Any] = {
    "job_id": "7",
    "job_type": "noop",
    "category": "maintenance",
    "outcome": "completed",
    "run_s": 0.1,
    "wait_s": 0.1,
    "rescued": 1,
    "dead_lettered": 0,
}


@pytest.mark.req("W-07")
@pytest.mark.parametrize("event", list(Event))
def test_each_event_is_one_line_and_problems_are_warnings(lines: Lines, event: Event):
    emit(event, **FIELDS)
    (line,) = lines()
    assert (line["event"], line["job_id"]) == (event.value, "7")
    assert line["level"] == ("warning" if event in PROBLEMS else "info")
