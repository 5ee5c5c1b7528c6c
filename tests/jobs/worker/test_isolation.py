"""The isolated process in which a quarantined job runs, as its worker sees it."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uuid_utils.compat import uuid7

from jobs.engine.claim import Claim
from jobs.engine.outcomes import (
    Canceled,
    Completed,
    DeadLettered,
    Failure,
    Outcome,
    Released,
    Retry,
    Snoozed,
)
from jobs.engine.steps import to_json
from jobs.states import DeadReason
from jobs.worker.isolation import (
    IsolatedProcess,
    IsolatedProcesses,
    ProcessDied,
    ProcessRunner,
    decode_claim,
    decode_outcome,
    encode_claim,
    encode_outcome,
)
from jobs.worker.threads import StopReason
from tenants.models import Firm
from tests.support.journal import Journal
from tests.support.scenario import Gate
from tests.support.testjobs import job_handlers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("J-15")

assert job_handlers

OWNER = {"firm_id": 1}
Text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
Failures = st.builds(Failure, Text, Text, Text, Text)
Numbers = st.floats(0, 1e6)
Moments = st.datetimes(timezones=st.just(UTC))
Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | Text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(Text, inner, max_size=3),
    max_leaves=6,
)
Outcomes = st.one_of(
    st.builds(Completed, Json),
    st.builds(Retry, Numbers, Failures, st.booleans()),
    st.builds(Snoozed, until=Moments) | st.builds(Snoozed, delay_seconds=Numbers),
    st.builds(Canceled, Text),
    st.builds(DeadLettered, st.sampled_from(DeadReason), Failures, st.booleans(), st.booleans()),
    st.builds(Released, Text, Numbers),
)


@pytest.fixture(scope="module")
def isolation(isolated_memory_mb: int) -> Iterator[IsolatedProcesses]:
    """Return the isolated processes, which the tests of this module share."""
    isolation = IsolatedProcesses()
    yield isolation
    isolation.end_idle(0)


@pytest.fixture
def owner(transactional_db: None, system_firm: Firm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the claims' firm one that exists, because isolated processes look it up."""
    monkeypatch.setitem(OWNER, "firm_id", system_firm.pk)


@pytest.fixture
def process(isolation: IsolatedProcesses, owner: None) -> Iterator[IsolatedProcess]:
    """Return a process that is ready."""
    with isolation.lend() as process:
        yield process


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """Return the journal into which the test's handlers write."""
    return Journal(tmp_path / "journal")


def claimed(job_type: str, **payload: Any) -> Claim:
    """Return a claim of a job that has no row."""
    envelope = {
        "tenant_id": OWNER["firm_id"],
        "version": "1.0",
        "correlation_id": "it-belongs-together",
    }
    return Claim(
        job_id=UUID(str(uuid7())),
        firm_id=OWNER["firm_id"],
        user_id=None,
        category="notifications",
        job_type=job_type,
        payload_version="1.0",
        payload=to_json({**envelope, **payload}),
        correlation_id="it-belongs-together",
        priority=2,
        attempts=2,
        max_attempts=40,
        series=1,
        deaths=2,
        lease_token=7,
        lock_key=None,
        lock_counted_by="firm",
        limit_key=None,
        scheduled_at=datetime(2026, 3, 1, tzinfo=UTC),
        cancel_requested=False,
        worker_id=UUID(str(uuid7())),
        waited_seconds=0.25,
        **FURTHER,
    )


FURTHER: dict[str, Any] = {
    "admitted": False,
    "started": False,
    "expires_in": None,
    "claimed_at": 0.0,
}


def run_aside(runner: ProcessRunner) -> Callable[[], Outcome]:
    """Run the claim on a thread; return a function that waits for the outcome."""
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(runner.run()))
    thread.start()

    def outcome() -> Outcome:
        thread.join(30)
        return outcomes[0]

    return outcome


@given(Outcomes)
def test_every_outcome_comes_back_as_it_was(outcome: Outcome) -> None:
    assert decode_outcome(encode_outcome(outcome)) == outcome


@pytest.mark.parametrize("result", [Counter({"a": 1}), defaultdict(list, a=[1])])
def test_a_result_of_a_class_of_its_own_comes_back_as_plain_json(result: dict[str, Any]) -> None:
    decoded = decode_outcome(encode_outcome(Completed(result, to_json(result))))
    assert isinstance(decoded, Completed)
    assert type(decoded.result) is dict
    assert (decoded.result, decoded.text) == (result, to_json(result))


def test_a_claim_arrives_as_it_was() -> None:
    claim = claimed("process.work", journal="")
    assert decode_claim(json.loads(encode_claim(claim))["run"]) == claim


@pytest.mark.parametrize(
    "answer",
    [b"", b"\xff", b"[]", b'{"outcome": "Nothing"}', b'{"outcome": "Retry", "fields": {}}'],
)
def test_a_damaged_answer_is_refused(answer: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any subclass will do
        decode_outcome(answer)


@pytest.mark.processes
@pytest.mark.parametrize("job_type", ["process.work", "process.wait"])
def test_a_process_runs_one_job_after_the_other(
    process: IsolatedProcess, journal: Journal, job_type: str
) -> None:
    for attempt in (1, 2):
        claim = claimed(job_type, journal=str(journal.path), label=str(attempt))
        assert ProcessRunner(claim, process, Random(1)).run() == Completed({"attempt": 2})
    assert len({entry.pid for entry in journal.entries()}) == 1


@pytest.mark.processes
@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ("exit", "its process died: exit code 0"),
        ("segfault", "its process died: killed by SIGSEGV"),
        ("memory", "its process died: out of memory; its limit is 1024 MB"),
    ],
)
def test_a_death_says_of_what(
    process: IsolatedProcess, journal: Journal, how: str, cause: str
) -> None:
    claim = claimed("process.die", journal=str(journal.path), how=how, times=2)

    outcome = ProcessRunner(claim, process, Random(1)).run()

    assert isinstance(outcome, DeadLettered)
    assert outcome.died
    assert outcome.reason == DeadReason.POISON
    assert outcome.failure.message == cause
    assert not process.alive


@pytest.mark.processes
@pytest.mark.req("J-16")
@pytest.mark.parametrize("job_type", ["process.wait", "process.patient"])
def test_a_request_to_cancel_reaches_the_handler(
    process: IsolatedProcess, journal: Journal, tmp_path: Path, job_type: str
) -> None:
    gate = Gate(tmp_path / "gate")
    claim = claimed(job_type, journal=str(journal.path), gate=str(gate.path))
    runner = ProcessRunner(claim, process, Random(1))
    outcome = run_aside(runner)
    wait_until(journal.starts, "the start of the handler")

    runner.stop(StopReason.CANCEL)

    assert outcome() == Canceled("canceled by request")
    assert process.alive


@pytest.mark.processes
@pytest.mark.req("J-14")
@pytest.mark.parametrize("job_type", ["process.work", "process.wait"])
def test_a_timeout_interrupts_the_handler(
    process: IsolatedProcess, journal: Journal, tmp_path: Path, job_type: str
) -> None:
    claim = claimed(job_type, journal=str(journal.path), gate=str(tmp_path / "gate"))
    runner = ProcessRunner(claim, process, Random(1))
    outcome = run_aside(runner)
    wait_until(journal.starts, "the start of the handler")

    runner.stop(StopReason.TIMEOUT)

    interrupted = outcome()
    assert isinstance(interrupted, Retry)
    assert not interrupted.died
    assert interrupted.failure.message == "timed out after 1800 seconds"
    assert process.alive


@pytest.mark.processes
@pytest.mark.req("J-14")
def test_a_handler_whose_lease_is_lost_is_killed_and_that_is_no_death(
    process: IsolatedProcess, journal: Journal, tmp_path: Path
) -> None:
    claim = claimed("process.work", journal=str(journal.path), gate=str(tmp_path / "gate"))
    runner = ProcessRunner(claim, process, Random(1))
    outcome = run_aside(runner)
    wait_until(journal.starts, "the start of the handler")

    runner.stop(StopReason.LEASE_LOST)

    assert outcome() == Released("lease lost")


@pytest.mark.processes
def test_an_idle_process_ends_after_a_while(isolation: IsolatedProcesses) -> None:
    with isolation.lend() as process:
        pass
    isolation.end_idle()
    assert process.alive
    isolation.end_idle(0)
    assert not process.alive


def test_a_process_that_cannot_start_is_not_lent(
    isolated_memory_mb: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.worker.isolation.START", "raise SystemExit(3)")
    with pytest.raises(ProcessDied, match="exit code 3"), IsolatedProcesses().lend():
        raise AssertionError("there is none")
