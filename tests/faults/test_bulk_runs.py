"""A bulk run goes on after its workers are killed: nothing is done twice, nothing is left out."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from django.utils import timezone
from uuid_utils.compat import uuid7

from jobs.models import BulkRun, DeadLetterQueue, JobQueue
from jobs.operations import bulk
from jobs.operations.bulk import BulkSpec
from jobs.queries.bulk import Selection
from jobs.states import BulkOperation, BulkState, Status
from tenants.models import AuditEntry, Firm
from tenants.scope import all_firms
from tests.factories.jobs import envelope
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet

pytestmark = [pytest.mark.processes, pytest.mark.req("D-03", "J-09")]

# How many dead letters, and how many kills: in the suite, and in `make chaos`. Even if a busy
# machine notices each chunk late, dead letters are left at the last kill.
SUITE = (6_000, 3)
CHAOS = (20_000, 20)
# The lease of the last worker. A busy machine may keep a worker silent for a short lease; that
# would count as a death, of which the job may have only two.
LAST_LEASE_SECONDS = 15.0


def dead_letters(firm: Firm, count: int) -> None:
    """Store dead letters of jobs that would complete if they were reprocessed."""
    now = timezone.now()
    jobs = [
        JobQueue(
            job_id=uuid7(), firm=firm, category="maintenance", job_type="noop", status=Status.DLQ,
            ready=False, payload_version="1.0", payload=envelope(firm.pk), correlation_id="c-1",
            completed_at=now,
        )
        for _ in range(count)
    ]  # fmt: skip
    with all_firms("test"):
        JobQueue.objects.bulk_create(jobs, batch_size=500)
        DeadLetterQueue.objects.bulk_create(
            [
                DeadLetterQueue(
                    firm=firm, original_job=one, job_series=1, reason="fatal", fingerprint="f",
                    moved_at=now,
                )
                for one in jobs
            ],
            batch_size=500,
        )  # fmt: skip


def run_now(run: BulkRun) -> BulkRun:
    with all_firms("test"):
        found: BulkRun = BulkRun.objects.get(pk=run.pk)
        return found


# After twenty deaths the delays add up to ten minutes.
@pytest.mark.timeout(1500)
def test_killed_workers_leave_nothing_out_and_do_nothing_twice(
    queue: Scenario, fleet: Fleet, chaos: bool
) -> None:
    count, kills = CHAOS if chaos else SUITE
    dead_letters(queue.firm, count)
    with all_firms("test"):
        run = bulk.start(
            BulkSpec(
                operation=BulkOperation.REPROCESS,
                selection=Selection(filters={"fingerprint": "f"}),
                firm=queue.firm,
            )
        )
    for kill in range(kills):
        before = run_now(run).handled
        worker = fleet.start(lease_seconds=SHORT_LEASE_SECONDS)
        wait_until(lambda: run_now(run).handled > before, "a chunk")  # noqa: B023 - waited for at once
        time.sleep(0.02 * (kill % 3))
        worker.kill()
        assert run_now(run).state == BulkState.RUNNING
        with all_firms("test"):
            # Otherwise the job would be poison at its third death, and dead-lettered after ten
            # attempts.
            JobQueue.objects.filter(pk=run.job_id).update(deaths=0, max_attempts=kills + 10)
    # Dead letters that are opened after the start are no members of the run.
    dead_letters(queue.firm, 5)
    fleet.start(lease_seconds=LAST_LEASE_SECONDS)
    wait_until(lambda: run_now(run).state != BulkState.RUNNING, "the end", timeout=240)
    wait_until(lambda: queue.statuses().get(Status.COMPLETED, 0) >= count, "all jobs", timeout=240)
    fleet.stop()

    assert (run_now(run).state, run_now(run).done) == (BulkState.COMPLETED, count)
    with all_firms("test"):
        series = Counter(JobQueue.objects.filter(job_type="noop").values_list("series", flat=True))
        resolutions = Counter(DeadLetterQueue.objects.values_list("resolution", flat=True))
        logged = AuditEntry.objects.filter(act="dead_letter.reprocess")
        targets = list(logged.values_list("target_id", flat=True))
    assert series == {2: count, 1: 5}
    assert resolutions == {"reprocessed": count, "": 5}
    assert (len(targets), len(set(targets))) == (count, count)
