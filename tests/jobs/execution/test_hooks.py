"""What monitoring and the log are told of an attempt, and what they must not be told."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from jobs.engine.outcomes import Completed, Retry
from jobs.errors import Fatal, Snooze
from jobs.execution import hooks
from jobs.execution.context import Signals
from jobs.execution.hooks import RunningAttempt
from jobs.execution.telemetry import FAILURES
from jobs.queue import EnqueueSpec, enqueue, enqueue_many
from jobs.registry import JobPayload, JobType, job
from jobs.states import Status
from jobs.testing import drain
from jobs.worker.threads import StopReason, ThreadRunner
from tenants.models import Firm
from tests.queue_kit import row, take_one
from tests.support.waiting import wait_until
from tests.support.worker_loop import worker_loop, working

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("A-01")]

BODY, SECRET = "canary of a mail's text", "canary-of-a-token-0123456789"


class Mail(JobPayload):
    """A payload that contains a mail, which no payload of Mailroom does."""

    body: str
    end: str


@pytest.fixture
def types(job_types: dict[str, JobType]) -> None:
    """Declare a type whose jobs end as their payload says."""

    @job("test.mail", category="sync", payload=Mail)
    def mail(payload: Mail, ctx: Any) -> None:
        held = {"text": payload.body, "password": SECRET}
        match payload.end:
            case "snooze":
                raise Snooze(seconds=60)
            case "fatal":
                raise Fatal(f"refused: token={SECRET}") from ValueError(f"api_key={SECRET}")
            case "error":
                raise ValueError(f"cannot use {len(held)} things, password={SECRET}")


class Kept(Transport):
    """Keeps the events that would be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[dict[str, Any]] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        self.events += [event for item in envelope.items if (event := item.get_event())]


@pytest.fixture
def sentry() -> Iterator[Kept]:
    """Set up Sentry as its users do, with its integrations for Django and logging."""
    kept = Kept()
    with sentry_sdk.new_scope() as scope:
        client = sentry_sdk.Client(dsn="https://key@sentry.example/1", transport=kept)
        scope.set_client(client)
        yield kept
        client.close(timeout=0)


@pytest.mark.parametrize("end", ["snooze", "fatal", "error", ""])
def test_sentry_gets_failures_without_text_and_secrets(
    firm: Firm, types: None, sentry: Kept, settings: Any, end: str
) -> None:
    # This caches that there are no hooks; the setting has to change that.
    assert hooks._hooks() == ()
    settings.JOB_ATTEMPT_HOOKS = ["jobs.execution.sentry.report_failure"]
    job_id = enqueue("test.mail", {"body": BODY, "end": end}, firm=firm).job_id
    drain(max_jobs=1)
    if end not in ("fatal", "error"):
        assert sentry.events == []
        return
    (event,) = sentry.events
    sent = json.dumps(event, default=str)
    assert BODY not in sent
    assert SECRET not in sent
    assert event["level"] == {"fatal": "error", "error": "warning"}[end]
    assert event["transaction"] == "test.mail"
    assert event["tags"]["job_id"] == str(job_id)
    *_, raised = event["exception"]["values"]
    assert raised["type"] == {"fatal": "Fatal", "error": "ValueError"}[end]
    assert raised["stacktrace"]["frames"][-1]["function"] == "mail"
    assert all("vars" not in frame for frame in raised["stacktrace"]["frames"])


def test_the_log_has_a_failed_attempt_with_its_traceback(
    firm: Firm, types: None, caplog: pytest.LogCaptureFixture
) -> None:
    enqueue("test.mail", {"body": BODY, "end": "error"}, firm=firm)
    enqueue("test.mail", {"body": BODY, "end": "fatal"}, firm=firm)
    drain(max_jobs=2)
    lines = {line.levelno: line for line in caplog.records if line.name == FAILURES}
    assert lines.keys() == {logging.WARNING, logging.ERROR}
    for line in lines.values():
        said = line.getMessage()
        assert said.startswith("job.attempt_failed job_type=test.mail job_id=")
        assert "Traceback (most recent call last):" in said
        assert "in mail\n" in said
    assert "cannot use 2 things" in lines[logging.WARNING].getMessage()
    assert BODY not in caplog.text
    assert SECRET not in caplog.text


told: list[tuple[str, str, str]] = []


@contextmanager
def telling(attempt: RunningAttempt) -> Iterator[None]:
    assert attempt.outcome == ""
    yield
    told.append((attempt.job_type, attempt.outcome, type(attempt.error).__name__))


def broken(attempt: RunningAttempt) -> Any:
    raise RuntimeError("the monitor is away")


@contextmanager
def broken_later(attempt: RunningAttempt) -> Iterator[None]:
    yield
    raise SystemExit("the monitor ends its process")


def test_a_broken_hook_changes_nothing_and_is_named(
    firm: Firm,
    types: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(hooks, "_hooks", lambda: (broken, telling, broken_later))
    told.clear()
    enqueue("test.mail", {"body": BODY, "end": "error"}, firm=firm)
    enqueue("test.mail", {"body": BODY, "end": ""}, firm=firm)
    assert drain(max_jobs=2).counts == {"retried": 1, "completed": 1}
    assert sorted(told) == [
        ("test.mail", "completed", "NoneType"),
        ("test.mail", "retry", "ValueError"),
    ]
    lines = [line for line in caplog.messages if line.startswith("subscriber_failed")]
    assert len(lines) == 4
    for hook in (broken, broken_later):
        assert sum(f"subscriber={hook.__module__}.{hook.__name__} " in line for line in lines) == 2


def test_a_handler_does_not_begin_if_its_time_is_up_in_a_hook(
    firm: Firm, job_types: dict[str, JobType], monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[str] = []
    job("test.late", category="sync", payload=JobPayload)(lambda payload, ctx: began.append("it"))
    enqueue("test.late", firm=firm)
    signals = Signals()
    runner = ThreadRunner(take_one(), signals, Random(1))

    @contextmanager
    def slow(attempt: RunningAttempt) -> Iterator[None]:
        runner.stop(StopReason.TIMEOUT)
        wait_until(lambda: False, "the timeout is raised here")
        yield

    monkeypatch.setattr(hooks, "_hooks", lambda: (telling, slow))
    told.clear()
    outcome = runner.run()
    assert isinstance(outcome, Retry)
    assert outcome.failure.error_class == "jobs.errors.JobTimeout"
    assert (began, told) == ([], [("test.late", "", "NoneType")])


def test_a_handler_that_ended_is_not_run_again_because_a_hook_took_too_long(
    firm: Firm, job_types: dict[str, JobType], monkeypatch: pytest.MonkeyPatch
) -> None:
    job("test.early", category="sync", payload=JobPayload)(lambda payload, ctx: {"done": True})
    enqueue("test.early", firm=firm)
    runner = ThreadRunner(take_one(), Signals(), Random(1))

    @contextmanager
    def slow(attempt: RunningAttempt) -> Iterator[None]:
        yield
        runner.stop(StopReason.TIMEOUT)
        wait_until(lambda: False, "the timeout is raised here")

    monkeypatch.setattr(hooks, "_hooks", lambda: (slow,))
    outcome = runner.run()
    assert isinstance(outcome, Completed)
    assert outcome.result == {"done": True}


_seen: list[tuple[str, str]] = []


@contextmanager
def note(attempt: RunningAttempt) -> Iterator[None]:
    """Append what a worker's hooks are told to a list."""
    yield
    _seen.append((attempt.job_type, attempt.outcome))


def test_a_worker_runs_hooks_also_around_batches_and_on_its_event_loop(
    firm: Firm, types: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "_seen", seen := [])

    @job("test.await", category="sync", payload=JobPayload)
    async def wait(payload: JobPayload, ctx: Any) -> None:
        """Do nothing."""

    loop = worker_loop(burst=False)
    with working(loop):
        before = enqueue("test.await", firm=firm).job_id
        wait_until(lambda: row(before).status == Status.COMPLETED, "a job before")
        settings.JOB_ATTEMPT_HOOKS = [f"{__name__}.note"]
        jobs = [EnqueueSpec("test.mail", {"body": BODY, "end": ""})] * 50
        enqueue_many([*jobs, EnqueueSpec("test.await")], firm=firm)
        wait_until(lambda: len(seen) == 51, "the hooks of all")
    assert sorted(set(seen)) == [("test.await", "completed"), ("test.mail", "completed")]
