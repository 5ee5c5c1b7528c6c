"""Two batches of outcomes in opposite orders, and a session that locks rows in the other order."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import Barrier

import pytest
from django.db import connection, transaction

from jobs.engine.claim import Claim
from jobs.engine.outcomes import Completed, Settlement, SettleReport
from jobs.engine.settle import settle
from jobs.execution.context import JobContext
from jobs.queue import EnqueueResult, EnqueueSpec, enqueue_many
from jobs.registry import JobPayload, JobType, job
from jobs.states import Status
from tenants.models import Firm
from tenants.scope import all_firms
from tests.queue_kit import new_worker, row, table_rows, take
from tests.support.databases import postgresql_only
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until

# How many rounds of two batches, and how many jobs of each firm in a batch: in the suite, and in
# `make chaos`.
SUITE = (5, 50)
CHAOS = (200, 250)
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
# pg_locks knows who waits for this session. Other processes of the suite use the same server and
# wait for locks, too, and pg_stat_activity does not change within a transaction.
WAITING = (
    "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
)


@pytest.mark.req("J-08", "J-09")
def test_batches_in_opposite_orders_do_not_deadlock(
    queue: Scenario, other_firm: Firm, chaos: bool
) -> None:
    rounds, jobs = CHAOS if chaos else SUITE
    deadlocks = count_deadlocks()
    for _ in range(rounds):
        for firm in (queue.firm, other_firm):
            made = enqueue_many([EnqueueSpec("noop", lock_key=None)] * (2 * jobs), firm=firm)
            queue.accepted += [one.job_id for one in made]
        claims = take(4 * jobs, worker_id=new_worker())
        # Each batch has jobs of both firms, so each writes to both firms' counters.
        batches = [claims[::2], claims[1::2][::-1]]
        line = Barrier(len(batches))
        with ThreadPoolExecutor(len(batches)) as writers:
            reports = list(writers.map(lambda batch: write(batch, line), batches))  # noqa: B023 - waited for at once
        assert not any(report.stale for report in reports)

    assert queue.statuses() == {Status.COMPLETED: len(queue.accepted)}
    assert count_deadlocks() == deadlocks
    queue.check()


@postgresql_only
@pytest.mark.req("J-08", "J-09")
def test_a_rival_who_takes_rows_the_other_way_round_is_let_through(queue: Scenario) -> None:
    queue.add(2)
    claims = take(2, worker_id=new_worker())
    first, second = sorted(claim.job_id for claim in claims)
    deadlocks = count_deadlocks()

    with ThreadPoolExecutor(1) as writer:
        with all_firms("a rival"), transaction.atomic():
            hold(second)
            settling = writer.submit(write, claims)
            wait_until(lambda: table_rows(WAITING), "the writer to wait for the second row")
            # The writer gives up the lock of the first row.
            hold(first)
            report = settling.result(timeout=20)
        assert report.stale == []
        assert {claim.job_id for claim in report.locked} >= {second}
        write(report.locked)

    assert count_deadlocks() == deadlocks
    assert {row(claim.job_id).status for claim in claims} == {Status.COMPLETED}
    queue.check()


@pytest.mark.req("J-07")
@pytest.mark.parametrize("job_type", ["noop", "once"])
@pytest.mark.parametrize("joins", [True, False], ids=["joined", "alone"])
def test_the_same_keys_in_opposite_orders_do_not_deadlock(
    queue: Scenario, job_types: dict[str, JobType], job_type: str, joins: bool
) -> None:
    job("once", category="sync", payload=JobPayload, idempotency_key=key_of, once_only=True)(
        do_nothing
    )
    deadlocks = count_deadlocks()
    for number in range(2):
        # These are more than one statement stores, with jobs without a key between them.
        specs = [
            EnqueueSpec(job_type, idempotency_key=f"{number}-{key}" if key % 5 else None)
            for key in range(1200)
        ]
        orders = [specs, specs[::-1]]
        line = Barrier(len(orders))
        with ThreadPoolExecutor(len(orders)) as writers:
            stored = list(
                writers.map(
                    lambda order: store(order, queue.firm, line, joins=joins),  # noqa: B023 - waited for at once
                    orders,
                )
            )
        first, second = (
            {spec.idempotency_key: one for spec, one in zip(order, results, strict=True)}
            for order, results in zip(orders, stored, strict=True)
        )
        for key in first.keys() - {None}:
            assert first[key].job_id == second[key].job_id
            assert first[key].created != second[key].created
    assert count_deadlocks() == deadlocks


def key_of(payload: JobPayload) -> str:
    """Return a key that none of the specs has."""
    return payload.correlation_id


def do_nothing(payload: JobPayload, ctx: JobContext) -> None:
    """Do nothing."""


def store(
    specs: list[EnqueueSpec], firm: Firm, line: Barrier, *, joins: bool
) -> list[EnqueueResult]:
    line.wait(20)
    try:
        with transaction.atomic() if joins else nullcontext():
            return enqueue_many(specs, firm=firm)
    finally:
        connection.close()


def write(batch: list[Claim], line: Barrier | None = None) -> SettleReport:
    if line is not None:
        line.wait(20)
    try:
        return settle([Settlement(claim, Completed({}), 0.0) for claim in batch])
    finally:
        connection.close()


def hold(job_id: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM jobs_jobqueue WHERE job_id = %s FOR UPDATE", [job_id])


def count_deadlocks() -> int:
    if connection.vendor == "sqlite":
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
    return int(table_rows(DEADLOCKS)[0][0])
