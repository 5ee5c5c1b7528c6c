"""Jobs that are over, and the fan-ins and batches that they are members of."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from jobs.engine.batches import ANY_UNCOMPLETED, leave_batches
from jobs.engine.fan_in import ANY_MEMBER, leave_fan_ins
from jobs.engine.transactions import fetch
from jobs.states import Status

_ANY_OF_EACH = f"SELECT EXISTS ({ANY_MEMBER}), EXISTS ({ANY_UNCOMPLETED})"


def leave_fan_ins_and_batches(jobs: Sequence[tuple[int, UUID, Status]]) -> None:
    """Note that these jobs, by firm and id, are over; enqueue what waited for them.

    Must join the transaction that settles them.
    """
    if not jobs:
        return
    # Nearly always there are none, and this query is all they cost.
    ((fan_ins, batches),) = fetch(_ANY_OF_EACH, [], prepared=True)
    if fan_ins:
        leave_fan_ins(
            [(firm_id, job_id, status is Status.COMPLETED) for firm_id, job_id, status in jobs]
        )
    if batches:
        leave_batches(jobs)
