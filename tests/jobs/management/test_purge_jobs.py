"""`manage.py purge_jobs` and the job type of that name: what is deleted, and what is kept."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobs.engine import prune
from jobs.models import Attempt, DeadLetterQueue, JobMinute, JobQueue, JobStep
from jobs.queue import acquire_lock, enqueue
from jobs.registry import JobPayload, job
from jobs.states import LIVE, Resolution, Status
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.queue_kit import later, locks, row, rows, work_off

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-22")]

Runner = Callable[..., Any]
DAY = 86_400
WEEK = 7 * DAY


def ended(
    firm: Firm, status: str = Status.COMPLETED, *, days: float = 0, **fields: Any
) -> JobQueue:
    """Store a job with an attempt and a step; the job ended `days` from now."""
    completed_at = timezone.now() + timedelta(days=days)
    job = JobQueueFactory(firm=firm, status=status, completed_at=completed_at, **fields)
    with all_firms("test"):
        Attempt.objects.create(firm=firm, job=job, series=1, number=1, end="retried")
        JobStep.objects.create(firm=firm, job=job, name="fetch", result={})
    return job


def letter(firm: Firm, resolution: str, status: str = Status.FAILED) -> DeadLetterQueue:
    """Store a dead letter that was decided just now, or, without a resolution, an open one."""
    reviewed_at = timezone.now() if resolution else None
    return DeadLetterQueueFactory(
        original_job=ended(firm, status), resolution=resolution, reviewed_at=reviewed_at
    )


def minute(firm: Firm, number: int, now: datetime) -> None:
    moment = now.replace(second=0, microsecond=0) - timedelta(minutes=number)
    with all_firms("test"):
        JobMinute.objects.create(firm=firm, category="sync", minute=moment, completed=1)


def left() -> set[Any]:
    """Return the ids of the jobs that were not deleted."""
    return {job.pk for job in rows(JobQueue)}


def test_what_ended_a_week_ago_goes_with_its_history(run: Runner, firm: Firm) -> None:
    over = (Status.COMPLETED, Status.FAILED, Status.CANCELED)
    for status in over:
        ended(firm, status)
    young = ended(firm, days=1.1)
    live = {JobQueueFactory(firm=firm, status=status).pk for status in sorted(LIVE)}
    with later(WEEK - 60):
        assert run("purge_jobs", "--json").json["jobs"] == 0
    with later(WEEK + DAY):
        done = run("purge_jobs", "--json")
    assert (done.code, done.json["jobs"]) == (0, len(over))
    assert left() == {young.pk, *live}
    assert [one.job_id for one in rows(Attempt)] == [young.pk]
    assert [one.job_id for one in rows(JobStep)] == [young.pk]


def test_what_nobody_reviewed_stays_and_the_rest_goes_after_90_days(
    run: Runner, firm: Firm
) -> None:
    opened = letter(firm, "", Status.DLQ)
    escalated = letter(firm, Resolution.ESCALATED, Status.DLQ)
    letter(firm, Resolution.DISCARDED)
    letter(firm, Resolution.REPROCESSED, Status.COMPLETED)
    with later(89 * DAY):
        gone = run("purge_jobs", "--json").json
        assert (gone["jobs"], gone["dead_letters"]) == (0, 0)
    with later(91 * DAY):
        gone = run("purge_jobs", "--json").json
    assert (gone["jobs"], gone["dead_letters"]) == (2, 2)
    assert {one.pk for one in rows(DeadLetterQueue)} == {opened.pk, escalated.pk}
    assert left() == {opened.original_job_id, escalated.original_job_id}


def test_a_firm_keeps_its_jobs_as_long_as_it_says(
    run: Runner, firm: Firm, other_firm: Firm
) -> None:
    Firm.objects.filter(pk=firm.pk).update(retention_days=30)
    kept, _ = ended(firm), ended(other_firm)
    with later(8 * DAY):
        assert run("purge_jobs", "--json").json["jobs"] == 1
    assert left() == {kept.pk}
    with later(31 * DAY):
        assert run("purge_jobs", "--json").json["jobs"] == 1
    assert left() == set()


def test_a_type_keeps_its_jobs_as_long_as_it_says(
    run: Runner, firm: Firm, job_types: dict[str, Any]
) -> None:
    def declare(name: str, retention: timedelta) -> None:
        @job(name, category="sync", payload=JobPayload, retention=retention)
        def do_nothing(payload: JobPayload, ctx: Any) -> None:
            pass

    declare("test.brief", timedelta(days=1))
    declare("test.lasting", timedelta(days=30))
    Firm.objects.filter(pk=firm.pk).update(retention_days=3)
    brief = ended(firm, job_type="test.brief")
    failed = ended(firm, Status.FAILED, job_type="test.brief")
    usual, lasting = ended(firm), ended(firm, job_type="test.lasting")
    live = JobQueueFactory(firm=firm, job_type="test.brief")
    letter(firm, "", Status.DLQ)
    assert {brief.pk, failed.pk} < left()
    for days, gone in ((0.9, 0), (1.1, 2), (2.9, 0), (3.1, 1), (29.9, 0), (30.1, 1)):
        with later(int(days * DAY)):
            assert run("purge_jobs", "--json").json["jobs"] == gone, days
        if days == 3.1:
            assert usual.pk not in left()
            assert lasting.pk in left()
    assert live.pk in left()


def test_what_is_kept_for_ever_keeps_nothing_else(
    run: Runner, firm: Firm, other_firm: Firm, job_types: dict[str, Any]
) -> None:
    @job("test.lasting", category="sync", payload=JobPayload, retention=timedelta.max)
    def do_nothing(payload: JobPayload, ctx: Any) -> None:
        pass

    Firm.objects.filter(pk=other_firm.pk).update(retention_days=2**31 - 1)
    lasting, theirs = ended(firm, job_type="test.lasting"), ended(other_firm)
    ended(firm)
    with later(8 * DAY):
        assert run("purge_jobs", "--json").json["jobs"] == 1
    assert left() == {lasting.pk, theirs.pk}


def test_one_firm_is_purged_by_its_slug(run: Runner, firm: Firm, other_firm: Firm) -> None:
    _, theirs = ended(firm), ended(other_firm)
    with later(8 * DAY):
        done = run("purge_jobs", "--firm", "acme")
    assert done.out == "Deleted 1 jobs, 0 dead letters and 0 expired locks.\n"
    assert left() == {theirs.pk}
    assert run("purge_jobs", "--firm", "nowhere").code == 3


def test_everything_goes_in_chunks(
    run: Runner, firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune, "CHUNK", 2)
    whole, real_run, real_fetch = [], prune.run, prune.fetch

    def counting_run(sql: str, params: list[Any]) -> int:
        whole.append(deleted := real_run(sql, params))
        return deleted

    def counting_fetch(sql: str, params: list[Any]) -> list[Any]:
        found = real_fetch(sql, params)
        whole.append(len(found))
        return found

    now = timezone.now()
    for number in range(5):
        ended(firm)
        letter(firm, Resolution.DISCARDED)
        minute(firm, number, now)
        acquire_lock(f"lock {number}", 60, firm=firm)
    # The purge keeps this dead letter's job, and has to go on behind it.
    kept = letter(firm, "", Status.DLQ)
    ended(firm)
    monkeypatch.setattr(prune, "run", counting_run)
    monkeypatch.setattr(prune, "fetch", counting_fetch)
    with later(91 * DAY):
        done = run("purge_jobs", "--json").json
    assert done == {
        "jobs": 11,
        "dead_letters": 5,
        "minutes": 5,
        "locks": 5,
        "bulk_runs": 0,
        "deliveries": 0,
        "schedule_runs": 0,
        "batches": 0,
    }
    assert left() == {kept.original_job_id}
    assert (rows(JobMinute), locks()) == ([], [])
    assert max(whole) == 2


def test_counters_go_with_the_jobs_they_counted(run: Runner, firm: Firm) -> None:
    minute(firm, 0, timezone.now())
    with later(6 * DAY):
        assert run("purge_jobs", "--json").json["minutes"] == 0
    with later(8 * DAY):
        assert run("purge_jobs", "--json").json["minutes"] == 1


@pytest.mark.django_db(transaction=True)
def test_the_system_firms_job_serves_every_firm_and_a_firms_own_only_that_firm(
    system_firm: Firm, firm: Firm, other_firm: Firm
) -> None:
    mine, theirs = ended(firm), ended(other_firm)
    with later(8 * DAY):
        purge = enqueue("purge_jobs", firm=firm)
        work_off()
        assert row(purge.job_id).result == {
            "jobs": 1,
            "dead_letters": 0,
            "minutes": 0,
            "locks": 0,
            "bulk_runs": 0,
            "deliveries": 0,
            "schedule_runs": 0,
            "batches": 0,
        }
        assert (mine.pk in left(), theirs.pk in left()) == (False, True)
        purge = enqueue("purge_jobs", firm=system_firm)
        work_off()
        assert row(purge.job_id).result["jobs"] == 1
    assert theirs.pk not in left()
