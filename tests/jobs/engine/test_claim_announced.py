"""Claiming the job that a notification names, without a scan for the jobs that come before it."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from jobs.engine.admission import sweep
from jobs.engine.claim import Claim, claim_announced
from jobs.engine.clock import database_now
from jobs.engine.wakeup import AnnouncedJob
from jobs.operations.limits import pause
from tenants.models import Firm
from tests.queue_kit import change, new_worker, row, take

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("W-02")]


@pytest.fixture
def announced(firm):
    """Return a function that makes what a notification says of a job of the firm."""
    return lambda job_id, *, priority=2, of=firm: AnnouncedJob(
        job_id, of.pk, priority, "sync", "test.work"
    )


def claim_it(
    job: AnnouncedJob, worker_id: UUID | None = None, **names: tuple[str, ...]
) -> Claim | None:
    """Claim the job as an idle worker does; None if it is not claimed."""
    claims = claim_announced(worker_id or new_worker(), job, **names)
    assert len(claims) < 2
    return claims[0] if claims else None


@pytest.mark.req("J-08")
def test_it_is_claimed_as_started_past_what_comes_before_it(add, announced):
    before = [add(priority=0), add(name="Bob")]
    job_id = add(name="Ada")
    worker_id = new_worker()
    held = claim_it(announced(job_id), worker_id)
    stored = row(job_id)
    assert held is not None
    assert (held.job_id, held.started, held.worker_id) == (job_id, True, worker_id)
    assert '"Ada"' in held.payload
    assert (stored.status, stored.attempts, stored.worker_id) == ("claimed", 1, worker_id)
    assert stored.started_at == stored.claimed_at is not None
    assert stored.lease_token == held.lease_token > 0
    assert [one.job_id for _ in before for one in take()] == before


@pytest.mark.req("J-08")
def test_nobody_claims_it_twice(add, announced):
    job = announced(add())
    assert claim_it(job) is not None
    assert claim_it(job) is None


def test_a_job_that_is_not_due_waits(add, announced):
    later_on = database_now() + timedelta(minutes=1)
    assert claim_it(announced(add(at=later_on))) is None


@pytest.mark.parametrize("of", ["firm", "category", "type", "all"])
def test_a_pause_holds_it_back(firm, add, announced, of):
    job = announced(add())
    named = {"firm": {}, "category": {"category": "sync"}, "type": {"job_type": "test.work"}}
    pause(firm=None if of == "all" else firm, **named.get(of, {}), reason="maintenance")
    assert claim_it(job) is None


def test_of_a_firm_with_a_cap_only_admitted_jobs_are_claimed(firm: Firm, add, announced):
    Firm.objects.filter(pk=firm.pk).update(running_cap=1)
    first, second = announced(add()), announced(add())
    assert claim_it(first) is None
    assert claim_it(second) is None
    sweep()
    assert len(take()) == 1


def test_a_worker_of_other_categories_or_types_leaves_it(add, announced):
    job = announced(add())
    assert claim_it(job, categories=("export",)) is None
    assert claim_it(job, job_types=("test.other",)) is None
    assert claim_it(job, categories=("sync",), job_types=("test.work",)) is not None


def test_a_quarantined_job_does_not_count_as_started(add, announced):
    job_id = add()
    change(job_id, deaths=2, attempts=2)
    held = claim_it(announced(job_id))
    assert held is not None
    assert not held.started
    assert row(job_id).started_at is None


ID = "0190a6c6-7b1e-7c4e-8a55-0123456789ab"


def test_its_text_names_it_again():
    job = AnnouncedJob(UUID(ID), 7, 3, "sync", "mail.sync")
    assert AnnouncedJob.from_text(job.to_text()) == job


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sync",
        f"{ID} 1 2",
        f"{ID} 1 2 sync",
        f"{ID} 1 2 sync a.type more",
        f"{ID} 1 10 sync a.type",
        f"{ID} -1 2 sync a.type",
        f"{ID} 1 ² sync a.type",
        f"{ID} {'9' * 19} 2 sync a.type",
        f"{ID[:-1]} 1 2 sync a.type",
        f"{ID}\n1 2 sync a.type",
        f"{ID} 1 2 sync a.type\n",
    ],
)
def test_any_other_text_is_only_a_hint(text):
    assert AnnouncedJob.from_text(text) is None
