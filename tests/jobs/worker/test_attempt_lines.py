"""Every attempt is logged as one line with the same fields, however it ends, and counted once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY

from jobs.breaker import Breaker
from jobs.conf import lease_seconds
from jobs.engine.claim import Claim
from jobs.engine.clock import stopped_at
from jobs.engine.outcomes import (
    Canceled,
    Completed,
    DeadLettered,
    Failure,
    Outcome,
    Released,
    Retry,
    Settlement,
    Snoozed,
)
from jobs.engine.release import release, release_lost
from jobs.engine.settle import settle
from jobs.execution import events
from jobs.execution.events import Event, emit_released, emit_settled, subscribe
from jobs.models import CircuitBreaker
from jobs.operations import breakers
from jobs.queue import cancel, enqueue
from jobs.registry import JobPayload, job
from jobs.states import DeadReason, Status
from jobs.testing.run import run_maintenance
from tenants.models import Firm
from tenants.scope import all_firms, firm_scope
from tests.queue_kit import change, later, new_worker, take, take_started
from tests.support.scenario import Scenario

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("W-07", "J-13")]

FIELDS = {
    "job_type", "job_id", "tenant_id", "category", "correlation_id", "attempt", "outcome",
    "status", "error_class", "wait_s", "run_s", "worker_id",
}  # fmt: skip
FAILURE = Failure("ValueError", "it broke", fingerprint="abc")

Lines = list[Mapping[str, Any]]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    """Return a list of the attempts that have ended."""
    heard: Lines = []
    monkeypatch.setattr(events, "_subscribers", defaultdict(list))
    subscribe(Event.ATTEMPT_FINISHED, heard.append)
    return heard


@pytest.fixture
def stale(lines: Lines) -> Lines:
    """Return a list of the outcomes that came too late."""
    heard: Lines = []
    subscribe(Event.ATTEMPT_STALE, heard.append)
    return heard


def end(claim: Claim, outcome: Outcome, ran_seconds: float | None = 0.5) -> None:
    """Settle an attempt and publish it, as the completer does."""
    batch = [Settlement(claim, outcome, ran_seconds)]
    emit_settled(batch, settle(batch))


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


@pytest.mark.parametrize(
    ("outcome", "word", "status", "error_class"),
    [
        (Completed({}), "completed", Status.COMPLETED, None),
        (Retry(1.0, FAILURE), "retry", Status.PENDING, "ValueError"),
        (DeadLettered(DeadReason.FATAL, FAILURE), "deadlettered", Status.DLQ, "ValueError"),
        (Snoozed(until=datetime(2999, 1, 1, tzinfo=UTC)), "snoozed", Status.PENDING, None),
        (Canceled("not now"), "canceled", Status.CANCELED, None),
        (Released("worker stopped"), "released", Status.PENDING, None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_attempt_that_is_settled(
    outcome: Outcome,
    word: str,
    status: Status,
    error_class: str | None,
    queue: Scenario,
    lines: Lines,
) -> None:
    queue.add()
    (claim,) = take(worker_id=new_worker())
    labels = {"category": claim.category, "job_type": claim.job_type, "outcome": word}
    before = sample("mailroom_attempts_total", **labels)
    end(claim, outcome)
    (line,) = lines
    assert line.keys() == FIELDS
    assert (line["outcome"], line["status"], line["error_class"]) == (word, status, error_class)
    assert line["job_id"] == str(claim.job_id)
    assert line["tenant_id"] == queue.firm.pk
    assert line["correlation_id"] == claim.correlation_id
    assert (line["attempt"], line["run_s"], line["worker_id"]) == (1, 0.5, str(claim.worker_id))
    assert sample("mailroom_attempts_total", **labels) == before + 1


@pytest.mark.req("J-14")
@pytest.mark.usefixtures("settled_database")
@pytest.mark.parametrize("started", [True, False])
def test_an_attempt_that_ended_with_its_worker(
    started: bool, queue: Scenario, lines: Lines, stale: Lines
) -> None:
    queue.add()
    worker_id = new_worker()
    claim = take_started(worker_id) if started else take(worker_id=worker_id)[0]
    jobs_before = sample("mailroom_rescued_jobs_total")
    with later(lease_seconds() + 1):
        run_maintenance()
    (line,) = lines
    assert line.keys() == FIELDS
    assert (line["outcome"], line["status"]) == ("rescued", Status.PENDING)
    assert line["error_class"] == ("WorkerDied" if started else "NotStarted")
    assert (line["attempt"], line["worker_id"]) == (1, str(worker_id))
    assert line["correlation_id"] == claim.correlation_id
    assert line["wait_s"] == pytest.approx(claim.waited_seconds, abs=0.01)
    assert sample("mailroom_rescued_jobs_total") == jobs_before + 1

    late_before = sample("mailroom_stale_attempts_total", category=claim.category)
    end(claim, Completed({}))
    assert len(lines) == 1, "the rescue has logged the attempt already"
    assert [one["job_id"] for one in stale] == [str(claim.job_id)]
    assert stale[0].keys() == FIELDS
    assert sample("mailroom_stale_attempts_total", category=claim.category) == late_before + 1


@pytest.mark.usefixtures("settled_database")
def test_how_long_a_rescued_attempt_ran_is_logged_where_it_is_known(
    queue: Scenario, lines: Lines
) -> None:
    (job_id,) = queue.add()
    claim = take_started(new_worker())
    with later(0) as now:
        change(job_id, status="processing", started_at=now)
    with stopped_at(now + timedelta(seconds=lease_seconds() + 5)):
        run_maintenance()
    assert lines[0]["run_s"] == pytest.approx(lease_seconds() + 5, abs=1.0)
    assert claim.attempts == 1


def test_claims_that_are_given_back_before_they_start(queue: Scenario, lines: Lines) -> None:
    queue.add(3)
    claims = take(worker_id=new_worker())
    end(claims[0], Completed({}))
    released = release(claims, "worker stopped")
    emit_released([(one, released[one.job_id]) for one in claims if one.job_id in released])
    assert Counter(line["job_id"] for line in lines) == {str(one.job_id): 1 for one in claims}
    assert Counter(line["outcome"] for line in lines) == {"completed": 1, "released": 2}
    assert all(line.keys() == FIELDS for line in lines)


def test_claims_whose_answer_was_lost(queue: Scenario, lines: Lines) -> None:
    queue.add(2)
    worker_id = new_worker()
    known, lost = take(worker_id=worker_id)
    emit_released(release_lost(worker_id, {known.lease_token})[0])
    (line,) = lines
    assert (line["job_id"], line["outcome"], line.keys()) == (str(lost.job_id), "released", FIELDS)


def test_a_canceled_job_that_a_worker_had_taken(queue: Scenario, lines: Lines) -> None:
    (job_id,) = queue.add()
    worker_id = new_worker()
    take_started(worker_id)
    with all_firms("test"):
        cancel(job_id)
    emit_released(release_lost(worker_id, ())[0])
    assert [(line["outcome"], line["status"]) for line in lines] == [("released", "canceled")]


@pytest.mark.req("O-07")
def test_a_breaker_that_opens_and_closes(firm: Firm, job_types: Any, lines: Lines) -> None:
    @job("frail", category="sync", payload=JobPayload, breaker=Breaker(min_attempts=2))
    def frail(payload: JobPayload, ctx: Any) -> None:
        """Never run."""

    heard: list[tuple[str, Mapping[str, Any]]] = []
    subscribe(Event.BREAKER_OPENED, lambda fields: heard.append(("opened", fields)))
    subscribe(Event.BREAKER_CLOSED, lambda fields: heard.append(("closed", fields)))
    before = sample("mailroom_breaker_openings_total", job_type="frail")
    for _ in range(2):
        enqueue("frail", {}, firm=firm)
    for claim in take(worker_id=new_worker()):
        assert heard == []
        end(claim, Retry(60.0, FAILURE))
    of_firm = {"job_type": "frail", "tenant_id": firm.pk}
    assert heard == [("opened", {**of_firm, "fingerprint": "abc", "trips": 1})]
    assert sample("mailroom_breaker_openings_total", job_type="frail") == before + 1
    with firm_scope(firm):
        breakers.close_breaker(CircuitBreaker.objects.get(), "it is well again")
        assert len(heard) == 1, "nothing is published before it is stored"
    assert heard[1:] == [("closed", of_firm)]
