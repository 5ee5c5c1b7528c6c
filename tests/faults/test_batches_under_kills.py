"""A batch whose workers are killed: all jobs settle, and each event has one job."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from jobs.models import Batch, DeadLetterQueue, JobQueue
from jobs.queue import EnqueueSpec, enqueue_batch, reprocess
from jobs.states import LIVE, Status
from tenants.scope import all_firms
from tests.support.scenario import Gate, Scenario
from tests.support.waiting import wait_until
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet, WorkerProcess

pytestmark = pytest.mark.processes

# How many jobs, and how many kills: in the suite, and in `make chaos`.
SUITE = (120, 3)
CHAOS = (10_000, 40)
WORKERS = 2
JOB_SECONDS = 0.02
EVENTS = ("failed", "settled", "completed")


def batch_now() -> Batch:
    """Return the only batch."""
    with all_firms("looking at the batch"):
        batch: Batch = Batch.objects.get()
        return batch


def labels() -> Counter[str]:
    """Return how many jobs each event of the batch has."""
    with all_firms("looking at the queue"):
        payloads = JobQueue.objects.filter(job_type="process.work").values_list(
            "payload", flat=True
        )
        return Counter(one["label"] for one in payloads if one["label"] in EVENTS)


@pytest.mark.req("A-02", "J-14")
def test_a_batch_whose_workers_are_killed_settles_and_fires_each_event_once(
    queue: Scenario, fleet: Fleet, chaos: bool
) -> None:
    jobs, kills = CHAOS if chaos else SUITE
    rng, last = Random(7), queue.gate()
    # Each kill has its own portion of the jobs, which wait at a gate so that none ends too early;
    # the last portion is for the time after the kills.
    gates = [Gate(last.path.with_name(f"gate-{number}")) for number in range(kills + 1)]
    portion = jobs // len(gates)
    jobs = portion * len(gates)
    journal = str(queue.journal.path)
    start = ("--concurrency", "4")
    workers = fleet.start_many(WORKERS, *start, lease_seconds=SHORT_LEASE_SECONDS)

    def kill(victim: WorkerProcess) -> None:
        victim.kill()
        workers.remove(victim)
        workers.append(fleet.start(*start, lease_seconds=SHORT_LEASE_SECONDS))

    def of_session(session: int) -> WorkerProcess:
        return next(worker for worker in workers if worker.session == session)

    def work(label: str = "", **options: object) -> EnqueueSpec:
        return EnqueueSpec("process.work", {"journal": journal, "label": label, **options})

    bad = {"journal": journal, "how": "error", "times": 1}
    batch = enqueue_batch(
        [
            EnqueueSpec("process.fail", bad, max_attempts=1),
            *[
                work(seconds=JOB_SECONDS, gate=str(gate.path))
                for gate in gates
                for _ in range(portion)
            ],
            work("last", gate=str(last.path)),
        ],
        **{f"on_{event}": work(event) for event in EVENTS},  # type: ignore[arg-type]  # three specs
        firm=queue.firm,
    )
    members = [result.job_id for result in batch.jobs]
    failing = members[0]

    for gate in gates[:kills]:
        more = len(queue.journal.starts()) + rng.randint(1, portion // 2)
        gate.open()
        starts = wait_until(
            lambda: len(found := queue.journal.starts()) >= more and found,  # noqa: B023 - at once
            "more handlers to start",
            timeout=300,
        )
        kill(of_session(starts[-1].session))
    gates[-1].open()
    wait_until(lambda: not LIVE & queue.statuses(members[:-1]).keys(), "all but the last")
    wait_until(lambda: batch_now().failed_at, "the job for the failure")
    assert batch_now().settled_at is None

    last.open()
    ended = wait_until(
        lambda: [
            one for one in queue.journal.entries() if (one.what, one.label) == ("end", "last")
        ],
        "the end of the last handler",
    )
    # The worker now stores the outcome of the last job, or enqueues the job for `settled`.
    kill(of_session(ended[-1].session))
    wait_until(lambda: batch_now().settled_at, "the job for the end")
    assert batch_now().completed_at is None
    assert queue.statuses(members) == {Status.COMPLETED: jobs + 1, Status.DLQ: 1}

    with all_firms("an operator"):
        letter = DeadLetterQueue.objects.get(original_job_id=failing)
        reprocess(letter, note="mended", payload={**bad, "times": 0})
    wait_until(lambda: batch_now().completed_at, "the job for the completion")
    queue.wait_until_settled()
    for worker in workers:
        worker.wait_until_started()
    fleet.stop()

    assert labels() == dict.fromkeys(EVENTS, 1)
    found = batch_now()
    callbacks = [getattr(found, f"{event}_job_id") for event in EVENTS]
    assert queue.statuses([*members, *callbacks]) == {Status.COMPLETED: jobs + 5}
    assert queue.statuses() == {Status.COMPLETED: jobs + 5}
