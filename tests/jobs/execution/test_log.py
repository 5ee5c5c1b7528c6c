"""`ctx.log`: a handler's notes are kept with the job, however the attempt ends."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from jobs.engine.delete_owned import delete_jobs
from jobs.engine.history import save_log
from jobs.engine.prune import prune
from jobs.engine.transactions import in_transaction
from jobs.errors import Fatal, Retryable
from jobs.execution.context.calls import MAX_LOG_LENGTH, MAX_LOG_LINES
from jobs.models import AttemptLog
from jobs.queries.job_detail import details_of
from jobs.queue import enqueue
from jobs.registry import JobPayload, job
from jobs.testing import run_job
from tenants.models import Firm
from tenants.scope import all_firms
from tests.queue_kit import change, later, row, rows, take_one

pytestmark = [pytest.mark.django_db, pytest.mark.req("A-01", "O-03")]


class EndPayload(JobPayload):
    """The payload says how the handler ends."""

    end: str = ""


def act(end: str, ctx: Any) -> None:
    """Write a note, and end as `end` says."""
    ctx.log("begun")
    match end:
        case "fatal":
            raise Fatal("no")
        case "retry":
            raise Retryable("again", retry_after=0)
        case "in a transaction":
            with transaction.atomic():
                ctx.log("rolled back, and noted all the same")
                transaction.set_rollback(True)
        case "secret":
            ctx.log("password=hunter2 of ada@example.org")
        case "number":
            ctx.log(7)
        case "much":
            for number in range(MAX_LOG_LINES + 5):
                ctx.log(f"{number} " + "x" * 2 * MAX_LOG_LENGTH)
        case "completing":
            with ctx.transaction():
                ctx.log("completing")


@pytest.fixture(autouse=True)
def types(job_types: dict[str, Any]) -> None:
    """Declare handlers that write notes."""

    @job("test.notes", category="sync", payload=EndPayload)
    def notes(payload: EndPayload, ctx: Any) -> None:
        act(payload.end, ctx)

    @job("test.async_notes", category="sync", payload=EndPayload)
    async def async_notes(payload: EndPayload, ctx: Any) -> None:
        act(payload.end, ctx)


def noted(firm: Firm, end: str = "", job_type: str = "test.notes") -> list[str]:
    """Run a job once; return the notes that its details show."""
    job_id = enqueue(job_type, {"end": end}, firm=firm).job_id
    run_job(job_id)
    return texts(job_id)


def texts(job_id: UUID) -> list[str]:
    with all_firms("test"):
        return [line.text for line in details_of(row(job_id)).log]


@pytest.mark.parametrize("end", ["", "fatal", "retry"])
@pytest.mark.parametrize("job_type", ["test.notes", "test.async_notes"])
def test_it_is_kept_however_the_attempt_ends(firm: Firm, end: str, job_type: str) -> None:
    assert noted(firm, end, job_type) == ["begun"]


def test_what_the_handler_rolled_back_does_not_take_it_along(firm: Firm) -> None:
    assert noted(firm, "in a transaction") == ["begun", "rolled back, and noted all the same"]


def test_it_is_kept_of_an_attempt_that_completed_its_job_by_itself(firm: Firm) -> None:
    assert noted(firm, "completing") == ["begun", "completing"]


def test_each_attempt_has_its_own(firm: Firm) -> None:
    job_id = enqueue("test.notes", {"end": "retry"}, firm=firm).job_id
    run_job(job_id)
    run_job(job_id)
    with all_firms("test"):
        lines = details_of(row(job_id)).log
    assert [(line.number, line.text) for line in lines] == [(1, "begun"), (2, "begun")]


def test_it_is_redacted(firm: Firm, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "jobs.handlers"):
        _, second = noted(firm, "secret")
    assert second == "[redacted] of [redacted]"
    written = [record.getMessage() for record in caplog.records if record.name == "jobs.handlers"]
    assert len(written) == 2
    assert "text=begun" in written[0]
    assert "hunter2" not in written[1]


def test_a_note_may_be_an_id(firm: Firm) -> None:
    assert noted(firm, "number") == ["begun", "7"]


def test_it_is_bounded(firm: Firm) -> None:
    kept = noted(firm, "much")
    assert len(kept) == MAX_LOG_LINES
    assert {len(text) for text in kept[1:]} == {MAX_LOG_LENGTH}


@pytest.mark.req("J-09")
def test_nothing_is_kept_of_an_attempt_that_lost_its_job(firm: Firm) -> None:
    enqueue("test.notes", {}, firm=firm)
    held = take_one()
    assert save_log(held, [("2026-01-01T00:00:00+00:00", "mine")])
    change(held.job_id, lease_token=held.lease_token + 1)
    assert not save_log(held, [("2026-01-01T00:00:00+00:00", "late")])
    assert texts(held.job_id) == ["mine"]


@pytest.mark.req("J-22")
def test_it_goes_with_the_job(firm: Firm) -> None:
    noted(firm)
    gone = enqueue("test.notes", {"end": "fatal"}, firm=firm).job_id
    run_job(gone)
    change(gone, status="failed")
    assert len(rows(AttemptLog)) == 2
    in_transaction(lambda: delete_jobs([(gone, firm.pk)]))
    assert len(rows(AttemptLog)) == 1
    with later(100 * 86_400), all_firms("test"):
        prune(firm)
    assert rows(AttemptLog) == []
