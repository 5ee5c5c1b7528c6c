"""Commits a handler's own writes together with its job's completion."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from jobs.engine.admission import admit
from jobs.engine.claim import Claim
from jobs.engine.completions import mark_transaction
from jobs.engine.current_job import Signals
from jobs.engine.locks import ReleasedCapacity
from jobs.engine.outcomes import Completed
from jobs.engine.settle import complete, is_completed
from jobs.engine.steps import NotStorable, to_json
from jobs.engine.wakeup import wake
from jobs.errors import Fatal, JobTimeout, LeaseLost, WrongPlace
from jobs.execution.connections import check_after, in_transaction
from tenants.scope import firm_scope


@dataclass
class JobTransaction:
    """The open transaction; `result` is stored as the job's result, plain JSON; None means `{}`."""

    result: Any = None


# The outcome of nearly all handlers.
_NO_RESULT = Completed({}, "{}")


@contextmanager
def completing(
    claim: Claim, signals: Signals, begun: float, check: Callable[[], None]
) -> Iterator[JobTransaction]:
    """Complete the job when the block ends, in the block's own transaction.

    `begun` is when the handler started, by the monotonic clock; `check` raises when the job must
    not complete any more. The block sees its own firm only. A timeout is raised as LeaseLost, or as
    JobTimeout if it came too late to undo anything.
    """
    tx = JobTransaction()
    try:
        check()
        # A timeout raised in the middle of a rollback would make SQLite commit instead.
        with ExitStack() as shield, ExitStack() as scope:
            check_after(time.monotonic() - begun)
            _begin(scope, claim.firm_id)
            # The first to be called, because one of the handler's may raise.
            transaction.on_commit(signals.note_completion, robust=True)
            try:
                yield tx
            finally:
                shield.enter_context(signals.shielded())
            check()
            outcome = completed(claim, tx.result)
            try:
                released_capacity = complete(claim, outcome, ran_seconds=time.monotonic() - begun)
            except LeaseLost:
                signals.completion_refused = True
                raise
            transaction.on_commit(lambda: _admit(claim, released_capacity), robust=True)
    except BaseException as error:
        if not is_completed(claim) and (signals.timed_out or isinstance(error, JobTimeout)):
            raise LeaseLost(
                f"job {claim.job_id} ran into its timeout: nothing was written"
            ) from error
        raise
    signals.note_completion()
    if signals.timed_out:
        raise JobTimeout


def require_running(claim: Claim, signals: Signals) -> None:
    """Raise if the handler has no more say over its job, as far as this process knows.

    Raises:
        WrongPlace: the handler itself has completed the job.
        LeaseLost: the worker lost its lease.
        JobTimeout: the handler caught the first one.
    """
    if signals.has_completed:
        # A LeaseLost would end the handler without a word in the log.
        raise WrongPlace(
            "the job is completed: its ctx.transaction() is committed, so put all writes into that "
            "one block, and other calls of ctx before it"
        )
    if signals.lease_lost.is_set():
        raise LeaseLost(f"the worker of job {claim.job_id} lost its lease")
    if signals.timed_out:
        raise JobTimeout


def completed(claim: Claim, result: Any) -> Completed:
    """Return the outcome of a handler with this result.

    Raises:
        Fatal: the result cannot be stored.
    """
    if result is None:
        return _NO_RESULT
    try:
        return Completed(result, to_json(result))
    except NotStorable as error:
        raise Fatal(f"the handler of {claim.job_type} returned a result that {error}") from error


def _begin(scope: ExitStack, firm_id: int) -> None:
    """Begin the transaction, which ends with the stack."""
    refused = "ctx.transaction() must be the outermost transaction: leave the open one first"
    database = transaction.get_connection()
    if not database.in_atomic_block and in_transaction(database):
        # Without autocommit, the block below would commit nothing.
        raise WrongPlace(refused)
    try:
        scope.enter_context(firm_scope(firm_id, durable=True))
    except RuntimeError as error:
        raise WrongPlace(refused) from error
    mark_transaction()


def _admit(claim: Claim, released_capacity: ReleasedCapacity) -> None:
    if admit(released_capacity):
        wake([claim.category])
