"""Runs one claim and returns one outcome; never raises for a handler's error."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from datetime import UTC
from random import Random
from types import CoroutineType
from typing import Any

from django.db import DatabaseError

from interfaces.correlation import reset_correlation_id, set_correlation_id
from jobs import registry
from jobs.conf import unknown_type_grace_seconds
from jobs.engine.claim import Claim
from jobs.engine.current_job import reset_current_job, set_current_job
from jobs.engine.history import UNKNOWN_TYPE_REASON, save_log, unknown_type_releases
from jobs.engine.lease import is_lost
from jobs.engine.outcomes import (
    Canceled,
    DeadLettered,
    Failure,
    Outcome,
    Released,
    Retry,
    Snoozed,
    failure_of,
    fingerprint,
    message_of,
)
from jobs.engine.owner import gone_owner
from jobs.engine.transition import last_death_reason
from jobs.errors import (
    Cancel,
    Fatal,
    JobTimeout,
    LeaseLost,
    PayloadInvalid,
    Retryable,
    Snooze,
    UnknownJobType,
    deciding,
)
from jobs.execution.child_process import end_if_forked
from jobs.execution.connections import (
    atomic_connections,
    drop_open_transactions,
    require_no_transaction,
)
from jobs.execution.context import JobContext, Signals, completed
from jobs.execution.hooks import RunningAttempt, around_attempt, has_hooks
from jobs.execution.tracing import attempt_span, is_traced
from jobs.payload_validator import parse_payload
from jobs.registry import JobType
from jobs.retry import RetryPolicy
from jobs.states import DeadReason

# Runs a coroutine in the context variables of the caller and returns its result.
RunAsync = Callable[[Coroutine[Any, Any, Any]], Any]

UNAWAITED = (
    "the handler returned a coroutine that nobody awaits: declare the function under @job with "
    "async def, do not wrap it in a plain function"
)
LEASE_STOOD = "The handler itself raised LeaseLost, although the job still belonged to this worker."
UNKNOWN_FIRST_DELAY_SECONDS = 5.0
UNKNOWN_MAX_DELAY_SECONDS = 300.0


def execute(
    claim: Claim,
    *,
    rng: Random,
    signals: Signals,
    run_async: RunAsync = asyncio.run,
    context: type[JobContext] = JobContext,
    watched: bool | None = None,
) -> Outcome:
    """Run the handler of the claimed job, an `async def` by `run_async`; return its outcome.

    Context variables that the handler sets, such as Django's language and time zone, are restored
    afterwards. A caller that runs many jobs asks `is_watched` once, and passes the answer.
    """
    if watched is None:
        watched = is_watched()
    ctx = context(claim, signals)
    return copy_context().run(_with_log, claim, rng, ctx, signals, run_async, watched)


def is_watched() -> bool:
    """Say whether attempts are traced or have hooks; otherwise they must not pay for either."""
    return is_traced() or has_hooks()


def _with_log(
    claim: Claim,
    rng: Random,
    ctx: JobContext,
    signals: Signals,
    run_async: RunAsync,
    watched: bool,
) -> Outcome:
    if not watched:
        outcome = _execute(claim, rng, ctx, signals, run_async)
    else:
        with attempt_span(claim) as span, around_attempt(claim) as attempt:
            outcome = _execute(claim, rng, ctx, signals, run_async, attempt)
            attempt.ended(outcome)
            span.ended(outcome)
    if ctx.log_lines:
        # The lines are in the log already, so an error of the database must not change the outcome.
        with suppress(DatabaseError):
            save_log(claim, ctx.log_lines)
    return outcome


def _execute(
    claim: Claim,
    rng: Random,
    ctx: JobContext,
    signals: Signals,
    run_async: RunAsync,
    attempt: RunningAttempt | None = None,
) -> Outcome:
    declared = registry.find(claim.job_type)
    outer_id, outer_job = set_correlation_id(claim.correlation_id), set_current_job(claim)
    # Only a test runs handlers inside a transaction of its own.
    outer, process = atomic_connections(), os.getpid()
    try:
        if declared is None or declared.leaves_to_newer_code(claim.payload_version):
            return _unknown(claim, declared)
        if claim.cancel_requested:
            return Canceled("canceled before it started")
        _require_owner(claim)
        outcome = _run(claim, declared, ctx, signals, run_async)
        end_if_forked(process)
        require_no_transaction(outer)
    except BaseException as raised:  # noqa: BLE001 - whatever a handler raises is its outcome
        end_if_forked(process, raised)
        error = drop_open_transactions(raised, outer)
        if attempt is not None:
            attempt.error = error
        return _outcome_of(error, claim, declared, rng, signals)
    finally:
        reset_current_job(outer_job)
        reset_correlation_id(outer_id)
    return outcome


def timed_out(claim: Claim, *, rng: Random, message: str = "") -> Outcome:
    """Return the outcome of a handler that did not stop at its timeout; `message` overrides the text."""
    error = JobTimeout(message) if message else _timeout(claim)
    return _outcome_of(error, claim, registry.find(claim.job_type), rng)


def failed(claim: Claim, error: BaseException, *, rng: Random) -> Outcome:
    """Return the outcome of an attempt for which `error` was raised after its handler had ended."""
    return _outcome_of(error, claim, registry.find(claim.job_type), rng)


def died(claim: Claim, how: str, *, rng: Random) -> Outcome:
    """Return the outcome of an attempt whose own process died; `how` names the exit code or signal."""
    declared = registry.find(claim.job_type)
    failure = Failure(
        "ProcessDied",
        f"its process died: {how}",
        fingerprint=fingerprint(claim.job_type, "ProcessDied", "", how),
    )
    reason = last_death_reason(
        deaths=claim.deaths, attempts=claim.attempts, max_attempts=claim.max_attempts
    )
    if reason is not None:
        return _dead(reason, failure, declared, died=True)
    policy = declared.retry if declared else RetryPolicy()
    return Retry(policy.delay_seconds(claim.attempts, rng), failure, died=True)


def _timeout(claim: Claim) -> JobTimeout:
    declared = registry.find(claim.job_type)
    seconds = f" after {declared.timeout_seconds:g} seconds" if declared else ""
    return JobTimeout(f"timed out{seconds}")


def _run(
    claim: Claim, declared: JobType, ctx: JobContext, signals: Signals, run_async: RunAsync
) -> Outcome:
    try:
        payload = parse_payload(declared, claim.payload, claim.firm_id)
    except PayloadInvalid as error:
        return _dead(DeadReason.INVALID_PAYLOAD, failure_of(error, claim.job_type), declared)
    result = declared.handler(payload, ctx)
    if declared.is_async:
        result = run_async(result)
    elif type(result) is CoroutineType:
        result.close()
        raise Fatal(UNAWAITED)
    if signals.timed_out:
        # The handler caught the JobTimeout, and went on.
        raise JobTimeout
    return completed(claim, result)


def _require_owner(claim: Claim) -> None:
    if (gone := gone_owner(claim)) is not None:
        raise Fatal(f"{gone} no longer exists")


def _outcome_of(
    error: BaseException,
    claim: Claim,
    declared: JobType | None,
    rng: Random,
    signals: Signals | None = None,
) -> Outcome:
    """Return the outcome of an attempt that `error` ended; with `signals`, in its handler."""
    retry_after, note = None, ""
    try:
        error, note = _deciding(error, claim, signals)
        match error:
            case Snooze():
                # Checked again: a subclass may have set anything.
                Snooze(until=error.until, seconds=error.seconds)
                until = error.until and error.until.astimezone(UTC)
                delay = max(float(error.seconds or 0.0), 0.0)
                return Snoozed(until=until, delay_seconds=delay, message=message_of(error))
            case Cancel():
                return Canceled(message_of(error) or "canceled by its handler")
            case LeaseLost() if not note:
                return Released("lease lost")
            case Fatal():
                return _dead(DeadReason.FATAL, failure_of(error, claim.job_type), declared)
            case Retryable() if error.retry_after is not None:
                Retryable("", retry_after=error.retry_after)
                retry_after = max(float(error.retry_after), 0.0)
            case JobTimeout() if not error.args:
                # Raised asynchronously, by class alone.
                error.args = _timeout(claim).args
    except BaseException as odd:  # noqa: BLE001 - the code of an error's class may raise anything
        note = f"The handler's request to the queue cannot be read: {message_of(odd)}"
        with suppress(BaseException):
            error.add_note(note)
    failure = _with_note(failure_of(error, claim.job_type), note)
    if claim.attempts >= claim.max_attempts or declared is None:
        return _dead(DeadReason.EXHAUSTED, failure, declared)
    if retry_after is not None:
        return Retry(retry_after, failure)
    return Retry(declared.retry.delay_seconds(claim.attempts, rng), failure)


def _deciding(
    error: BaseException, claim: Claim, signals: Signals | None
) -> tuple[BaseException, str]:
    """Return the error that says how the attempt ended, and a note if a LeaseLost is not true."""
    found = deciding(error)
    if not isinstance(found, LeaseLost) or signals is None:
        return found, ""
    if signals.timed_out and not signals.lease_lost.is_set():
        # What `ctx.transaction()` raises at a timeout.
        return JobTimeout().with_traceback(found.__traceback__), ""
    if is_lost(claim, signals):
        return found, ""
    error.add_note(LEASE_STOOD)
    return deciding(error, lease_lost=False), LEASE_STOOD


def _with_note(failure: Failure, note: str) -> Failure:
    return replace(failure, message=f"{failure.message}\n{note}".strip()) if note else failure


def _dead(
    reason: DeadReason, failure: Failure, declared: JobType | None, *, died: bool = False
) -> DeadLettered:
    to_review = declared is None or declared.dead_letter
    return DeadLettered(reason, failure, to_review, died)


def _unknown(claim: Claim, declared: JobType | None) -> Outcome:
    """Leave the job to newer code for a while, without counting an attempt; then give it up."""
    grace = unknown_type_grace_seconds()
    releases, since_seconds = unknown_type_releases(claim)
    if since_seconds < grace:
        delay = UNKNOWN_FIRST_DELAY_SECONDS * 2 ** min(releases, 10)
        remaining = grace - since_seconds
        return Released(UNKNOWN_TYPE_REASON, min(delay, UNKNOWN_MAX_DELAY_SECONDS, remaining))
    error = UnknownJobType(claim.job_type)
    if declared is not None:
        error = UnknownJobType(f"{claim.job_type} (payload version {claim.payload_version})")
    failure = failure_of(error, claim.job_type)
    message = f"No handler registered for job_type: {error.job_type}"
    return _dead(
        DeadReason.UNKNOWN_TYPE,
        Failure(failure.error_class, message, "", failure.fingerprint),
        declared,
    )
