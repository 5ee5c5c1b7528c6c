"""Writes the outcomes of attempts, in batches, each guarded by the lease token of its claim.

Nearly all outcomes are plain completions, which take one statement for a batch (`completions`). Every
other outcome is a transition, written in a transaction of several statements.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

from django.db import DataError, IntegrityError, OperationalError, transaction

from jobs import registry
from jobs.engine import dialects
from jobs.engine.claim import Claim
from jobs.engine.completions import (
    HANDLER_LOCK_TIMEOUT_MILLISECONDS,
    complete_in_scope,
    complete_plain,
    same_transaction_sql,
)
from jobs.engine.dialects import LOCK_TIMEOUT_MILLISECONDS, SHORT_LOCK_TIMEOUT_MILLISECONDS, Column
from jobs.engine.end_attempts import end_attempts
from jobs.engine.locks import ReleasedCapacity
from jobs.engine.outcomes import Completed, DeadLettered, Failure, Settlement, SettleReport
from jobs.engine.transactions import (
    LockTimeout,
    fetch,
    in_transaction,
    limit_lock_waits,
)
from jobs.engine.transition import transition_of
from jobs.engine.wakeup import notify_settled
from jobs.errors import Fatal, LeaseLost
from jobs.states import DeadReason, Status

MOST_LOCK_TIMEOUTS = 5

# Claims whose handlers have committed the completion, by `id()`, until they are settled.
_completed_by_handlers: dict[int, Claim] = {}


def settle(settlements: Sequence[Settlement], *, again: bool = False) -> SettleReport:
    """Write these outcomes: plain completions in one statement, the others in one transaction.

    Stale claims change nothing and are named in the report, and so are those that another
    transaction keeps locked; settle these later, with `again`. Of two outcomes of one claim the
    first counts. A row the database refuses is settled alone, as a dead letter when it is refused
    again. The caller admits the released capacity afterwards.
    """
    once = {settlement.claim.lease_token: settlement for settlement in reversed(settlements)}
    left = sorted(once.values(), key=lambda settlement: settlement.claim.job_id.int)
    report = SettleReport()
    if _completed_by_handlers:
        left = _without_completed(left, report)
    try:
        written = set() if again else complete_plain(left)
        if len(written) == len(left):
            # Nearly always.
            report.add(_report_completed(left))
            return report
        if written:
            report.add(_report_completed([one for one in left if one.claim.lease_token in written]))
            left = [one for one in left if one.claim.lease_token not in written]
        if left:
            report.add(_settle_unlocked(left, again=again))
    except (DataError, IntegrityError):
        for settlement in left:
            report.add(_settle_alone(settlement))
    return report


def is_completed(claim: Claim) -> bool:
    """Say whether the handler has committed the completion of this claim, which is not settled yet."""
    return id(claim) in _completed_by_handlers


def _without_completed(settlements: Sequence[Settlement], report: SettleReport) -> list[Settlement]:
    """Report what handlers completed in transactions of their own; return the rest."""
    left = []
    for one in settlements:
        if _completed_by_handlers.pop(id(one.claim), None) is not None:
            report.before[one.claim.lease_token] = Status.COMPLETED
        else:
            left.append(one)
    return left


def _settle_unlocked(settlements: Sequence[Settlement], *, again: bool) -> SettleReport:
    """Write these outcomes in one transaction or, if a lock takes too long, in several parts.

    The jobs of a firm and type are one part, because their breaker is locked for all of them. With
    `again`, each job is a part of its own, in random order.
    """
    milliseconds = SHORT_LOCK_TIMEOUT_MILLISECONDS if again else LOCK_TIMEOUT_MILLISECONDS
    report = SettleReport()
    parts: dict[object, list[Settlement]] = {}
    try:
        return in_transaction(lambda: write_outcomes(settlements), lock_timeout_ms=milliseconds)
    except LockTimeout:
        for one in random.sample(settlements, len(settlements)):
            claim = one.claim
            key = claim.lease_token if again else (claim.firm_id, claim.job_type)
            parts.setdefault(key, []).append(one)
    timeouts = 0
    for part in parts.values():
        try:
            if timeouts < MOST_LOCK_TIMEOUTS:
                write = partial(write_outcomes, part)
                report.add(in_transaction(write, lock_timeout_ms=milliseconds))
                continue
        except LockTimeout:
            timeouts += 1
        report.locked += [one.claim for one in part]
    return report


def complete(claim: Claim, outcome: Completed, *, ran_seconds: float) -> ReleasedCapacity:
    """Settle the job as completed in the open transaction; return the capacity to admit afterwards.

    The firm of the job must be in scope. The caller rolls back when this raises.

    Raises:
        LeaseLost: the job is no longer this claim's, its cancel was requested, or another
            transaction keeps it locked.
        Fatal: the handler has ended the transaction itself.
    """
    settlement = Settlement(claim, outcome, ran_seconds)
    database = transaction.get_connection()
    try:
        if complete_in_scope(settlement):
            released = ReleasedCapacity.of_jobs([claim])
            database.on_commit(lambda: notify_settled([claim.job_id]), robust=True)
        else:
            released = in_transaction(lambda: _complete(settlement))
    except OperationalError as error:
        if not dialects.current().is_lock_timeout(error):
            raise
        raise LeaseLost(
            f"another transaction has locked job {claim.job_id}: nothing was written"
        ) from error
    database.on_commit(lambda: _completed_by_handlers.update({id(claim): claim}))
    return released


def _complete(settlement: Settlement) -> ReleasedCapacity:
    claim = settlement.claim
    dialect = dialects.current()
    limit_lock_waits(HANDLER_LOCK_TIMEOUT_MILLISECONDS)
    rows = fetch(
        f"""
        SELECT cancel_requested_at IS NOT NULL, {same_transaction_sql()} FROM jobs_jobqueue
        WHERE job_id = %s AND lease_token = %s {dialect.for_update}
        """,
        [dialect.value(Column.UUID, claim.job_id), claim.lease_token],
    )
    if not rows:
        raise LeaseLost(
            f"job {claim.job_id} no longer belongs to this attempt: nothing was written"
        )
    asked_to_stop, is_same_transaction = rows[0]
    if not is_same_transaction:
        # Fatal, because another attempt could repeat what a COMMIT has stored.
        raise Fatal(
            "the handler itself ended the transaction of ctx.transaction() (COMMIT or ROLLBACK): "
            "what it wrote before may be lost"
        )
    if asked_to_stop:
        raise LeaseLost(f"job {claim.job_id} was asked to stop: nothing was written")
    report = write_outcomes([settlement])
    limit_lock_waits(None)
    return report.released_capacity


def _report_completed(settlements: Sequence[Settlement]) -> SettleReport:
    claims = [one.claim for one in settlements]
    notify_settled([claim.job_id for claim in claims])
    return SettleReport(
        statuses={claim.job_id: Status.COMPLETED for claim in claims},
        released_capacity=ReleasedCapacity.of_jobs(claims),
    )


def _settle_alone(settlement: Settlement) -> SettleReport:
    try:
        return _settle_unlocked([settlement], again=False)
    except (DataError, IntegrityError) as error:
        failure = Failure(
            type(error).__name__, "the database refused to store the outcome of this job"
        )
        declared = registry.find(settlement.claim.job_type)
        to_review = declared is None or declared.dead_letter
        refused = settlement._replace(
            outcome=DeadLettered(DeadReason.FATAL, failure, to_review), ended_at=None
        )
        return _settle_unlocked([refused], again=False)


def write_outcomes(settlements: Sequence[Settlement]) -> SettleReport:
    """Settle these in the open transaction; each claim must be among them once."""
    ended = end_attempts(map(transition_of, settlements), by_worker=True)
    written = {one.job.lease_token for one in ended}
    missed = [one.claim for one in settlements if one.claim.lease_token not in written]
    before, locked = _why_missed(missed)
    # Also jobs settled before: the worker may have died before it admitted their capacity.
    released = written | before.keys()
    return SettleReport(
        statuses={one.job.job_id: one.status for one in ended},
        before=before,
        stale=[
            claim
            for claim in missed
            if claim.lease_token not in before and claim.lease_token not in locked
        ],
        locked=[claim for claim in missed if claim.lease_token in locked],
        released_capacity=ReleasedCapacity.of_jobs(
            one.claim for one in settlements if one.claim.lease_token in released
        ),
    )


def _why_missed(missed: Sequence[Claim]) -> tuple[dict[int, Status], set[int]]:
    """Return, by token, the status of jobs that an earlier write of the same claim settled.

    Also returns the tokens still in force: another transaction has locked these jobs, or just had.
    """
    if not missed:
        return {}, set()
    dialect = dialects.current()
    rows, params = dialect.rows_sql(
        "r",
        {"job_id": Column.UUID, "token": Column.BIGINT},
        [(claim.job_id, claim.lease_token) for claim in missed],
    )
    found = fetch(
        f"""
        SELECT r.token, j.status, j.lease_token = r.token FROM jobs_jobqueue j
        JOIN {rows} ON j.job_id = r.job_id WHERE j.lease_token IN (r.token, -r.token)
        """,
        params,
    )
    before = {token: Status(status) for token, status, in_force in found if not in_force}
    return before, {token for token, _, in_force in found if in_force}
