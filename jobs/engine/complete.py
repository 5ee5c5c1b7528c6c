"""Completes a job inside its handler's own transaction."""

from __future__ import annotations

from typing import Any

from jobs.engine import dialects
from jobs.engine.claim import Claim
from jobs.engine.dialects import Column
from jobs.engine.outcomes import Completed
from jobs.engine.released_capacity import ReleasedCapacity
from jobs.engine.settle import write_outcomes
from jobs.engine.settlement import Settlement
from jobs.engine.transactions import fetch, in_transaction
from jobs.errors import LeaseLost


def complete(claim: Claim, result: Any, *, ran_seconds: float) -> ReleasedCapacity:
    """Settle the job as completed in the transaction that is open; return what it gave up.

    The caller rolls back when this raises, and admits that after the commit.

    Raises:
        LeaseLost: the job is no longer this claim's, or it was asked to stop.
    """
    return in_transaction(lambda: _complete(Settlement(claim, Completed(result), ran_seconds)))


def _complete(settlement: Settlement) -> ReleasedCapacity:
    claim = settlement.claim
    dialect = dialects.current()
    held = fetch(
        f"""
        SELECT cancel_requested_at IS NOT NULL FROM jobs_jobqueue
        WHERE job_id = %s AND lease_token = %s {dialect.for_update}
        """,
        [dialect.value(Column.UUID, claim.job_id), claim.lease_token],
    )
    if not held:
        raise LeaseLost(f"job {claim.job_id} is no longer this attempt's: nothing was written")
    if held[0][0]:
        raise LeaseLost(f"job {claim.job_id} was asked to stop: nothing was written")
    return write_outcomes([settlement]).released_capacity
