"""What holds in the queue's tables after every step, independently of the model."""

from __future__ import annotations

from jobs.states import IN_FLIGHT, LIVE, Resolution, Status
from tests.properties.queue_machine.kinds import KINDS
from tests.properties.queue_machine.tables import JobRow, Tables

MAX_ATTEMPTS = max(kind.max_attempts for kind in KINDS.values())
OPEN = ("", Resolution.ESCALATED)


def check(tables: Tables) -> None:
    """Check each row by itself, and the rows that belong together."""
    for job_id, row in tables.jobs.items():
        _check_row(row)
        open_letters = [
            series
            for (of_job, series), (_, resolution) in tables.letters.items()
            if of_job == job_id and resolution in OPEN
        ]
        waits_for_a_decision = [row.series] if row.status == Status.DLQ else []
        assert open_letters == waits_for_a_decision, "exactly jobs in dlq have an open letter"
    _check_holders(tables)
    _check_locks(tables)


def _check_row(row: JobRow) -> None:
    assert 0 <= row.attempts <= MAX_ATTEMPTS
    assert not (row.ready and row.waiting)
    assert (row.ready or row.waiting) == (row.status in LIVE), "live jobs are ready or waiting"
    assert row.live_key is None or row.status in LIVE, "the key of a finished job is free"
    assert (row.completed is None) == (row.status in LIVE)
    held = row.token > 0 and row.worker is not None
    assert held == (row.status in IN_FLIGHT), "exactly jobs in flight have a holder"


def _check_holders(tables: Tables) -> None:
    tokens = [row.token for row in tables.jobs.values() if row.token > 0]
    assert len(tokens) == len(set(tokens)), "two claims have the same token"


def _check_locks(tables: Tables) -> None:
    holders = sorted(tables.locks.values())
    admitted = [
        job_id
        for job_id, row in tables.jobs.items()
        if row.lock_key is not None and (row.ready or row.status in IN_FLIGHT)
    ]
    assert holders == sorted(admitted), "exactly the admitted jobs have a slot"
