"""Stored payloads that cannot be read: each costs one attempt, and no other job waits for that."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from jobs.errors import PayloadInvalid
from jobs.models import DeadLetterQueue, JobQueue
from jobs.queue import enqueue
from jobs.states import DeadReason, Status
from tenants.scope import all_firms
from tests.support.scenario import Scenario
from tests.support.workers import Fleet

NEIGHBOURS = 30
DEPTH = 100_000
MEGABYTES = 10
UNREADABLE = {
    "a list": "[1, 2]",
    "a number": "7",
    "null": "null",
    "deep": "[" * DEPTH + "]" * DEPTH,
    "deep inside": json.dumps({"journal": "x"})[:-1] + ', "label": ' + "[" * 500 + "]" * 500 + "}",
    "a huge number": '{"journal": "x", "seconds": ' + "9" * 10_000 + "}",
    "wrong types": '{"journal": 3, "seconds": "soon"}',
    "nothing of the envelope": "{}",
    "another firm's": '{"journal": "x", "tenant_id": 987654321, "version": "1.0"}',
    "too long": json.dumps({"journal": "x" * MEGABYTES * 2**20}),
}
REFUSED: dict[str, Any] = {
    "a list": [1, 2],
    "not a number": {"journal": "x", "seconds": float("nan")},
    "a huge number": {"journal": "x", "seconds": 10**5_000},
    "a null character": {"journal": "x\x00"},
    "half a character": {"journal": "x\ud800"},
    "too long": {"journal": "x" * MEGABYTES * 2**20},
    "another firm's": {"journal": "x", "tenant_id": 987654321},
}


@pytest.mark.processes
@pytest.mark.req("J-12", "J-03")
def test_unreadable_payloads_already_stored_are_dead_at_once(queue: Scenario, fleet: Fleet) -> None:
    jobs = queue.add(len(UNREADABLE))
    bad = [
        job_id
        for job_id, text in zip(jobs, UNREADABLE.values(), strict=True)
        if store(queue, job_id, text)
    ]
    assert len(bad) >= len(UNREADABLE) - 2, "the database itself refuses two at most"
    queue.add(NEIGHBOURS)

    worker = fleet.start()
    queue.wait_until_settled()
    fleet.stop()

    assert worker.events("worker.stopped")
    with all_firms("looking at the dead letters"):
        ends = JobQueue.objects.filter(pk__in=bad).values_list("status", "attempts", "deaths")
        assert list(ends) == [(Status.DLQ, 1, 0)] * len(bad)
        reasons = set(DeadLetterQueue.objects.values_list("reason", flat=True))
    assert reasons == {DeadReason.INVALID_PAYLOAD}
    assert len(queue.journal.starts()) == len(queue.accepted) - len(bad)
    queue.check(expected_dead=bad)


@pytest.mark.req("J-03")
@pytest.mark.parametrize("what", REFUSED)
def test_unreadable_payloads_are_refused_and_leave_nothing(queue: Scenario, what: str) -> None:
    with pytest.raises(PayloadInvalid) as refused:
        enqueue("process.work", REFUSED[what], firm=queue.firm)
    assert refused.value.errors
    queue.check()


def store(queue: Scenario, job_id: Any, text: str) -> bool:
    """Write the payload without any check; return False if the database refuses it."""
    cast = "::jsonb" if connection.vendor == "postgresql" else ""
    key = str(job_id) if connection.vendor == "postgresql" else job_id.hex
    try:
        with all_firms("the test"), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE jobs_jobqueue SET payload = %s{cast} WHERE job_id = %s", [text, key]
            )
            assert cursor.rowcount == 1
    except DatabaseError:
        return False
    return True
