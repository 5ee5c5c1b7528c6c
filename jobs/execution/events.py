"""The events of the queue: a closed list, and the one way to emit them."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, get_args

from jobs.engine import breakers
from jobs.engine.claim import Claim, InFlightJob
from jobs.engine.outcomes import (
    Canceled,
    Completed,
    DeadLettered,
    Outcome,
    Retry,
    Settlement,
    SettleReport,
    class_path,
)
from jobs.engine.rescue import RescueReport
from jobs.engine.rollups import Measured
from jobs.execution import metrics, telemetry
from jobs.execution.telemetry import AttemptsByKind, FinishedAttempts
from jobs.registry.declaration import qualified_name
from jobs.states import BreakerState, Status


class Event(StrEnum):
    """The events, by their names in the log."""

    ATTEMPT_FINISHED = "job.attempt_finished"
    ATTEMPT_STALE = "job.attempt_stale"
    FAILED_AFTER_COMPLETION = "job.failed_after_completion"
    HANDLER_STUCK = "job.handler_stuck"
    ISOLATION_FAILED = "job.isolation_failed"
    JOB_GIVEN_UP = "job.given_up"
    JOBS_RESCUED = "jobs.rescued"
    JOBS_RELEASED = "jobs.released"
    WORKER_STARTED = "worker.started"
    WORKER_NOT_STARTED = "worker.not_started"
    WORKER_STOPPING = "worker.stopping"
    WORKER_STOPPED = "worker.stopped"
    WORKER_ASKED = "worker.asked"
    WORKER_NOT_REPLACED = "worker.not_replaced"
    WORKER_BROKEN = "worker.broken"
    WORKER_KILLED = "worker.killed"
    WORKER_MARKED_DEAD = "worker.marked_dead"
    DATABASE_AWAY = "worker.database_away"
    DATABASE_BACK = "worker.database_back"
    POOLER_FOUND = "worker.pooler_found"
    MAINTENANCE_FAILED = "worker.maintenance_failed"
    BREAKER_OPENED = "breaker.opened"
    BREAKER_CLOSED = "breaker.closed"
    SNAPSHOT_PINNED = "database.snapshot_pinned"
    SCHEDULE_RAN = "schedule.ran"
    SCHEDULE_SKIPPED = "schedule.skipped"
    SCHEDULE_FAILED = "schedule.failed"
    SCHEDULE_ZONE_MISSING = "schedule.zone_missing"
    NEW_FAILURE = "dead_letter.new_failure"
    UNREVIEWED = "dead_letter.unreviewed"
    SUBSCRIBER_FAILED = "subscriber_failed"


PROBLEMS = frozenset(
    {
        Event.ATTEMPT_STALE,
        Event.FAILED_AFTER_COMPLETION,
        Event.HANDLER_STUCK,
        Event.ISOLATION_FAILED,
        Event.JOB_GIVEN_UP,
        Event.WORKER_NOT_STARTED,
        Event.WORKER_BROKEN,
        Event.WORKER_KILLED,
        Event.WORKER_MARKED_DEAD,
        Event.DATABASE_AWAY,
        Event.POOLER_FOUND,
        Event.MAINTENANCE_FAILED,
        Event.BREAKER_OPENED,
        Event.SNAPSHOT_PINNED,
        Event.SCHEDULE_FAILED,
        Event.SCHEDULE_ZONE_MISSING,
        Event.NEW_FAILURE,
        Event.UNREVIEWED,
        Event.SUBSCRIBER_FAILED,
    }
)


# The name of each outcome in the log line of an attempt.
OUTCOMES = {outcome: outcome.__name__.lower() for outcome in get_args(Outcome)}
COMPLETED = OUTCOMES[Completed]
# The outcomes of attempts that say how long a job took.
ENDED = frozenset(OUTCOMES[outcome] for outcome in (Completed, Retry, DeadLettered, Canceled))

_MEASURED = {
    Event.ATTEMPT_STALE: metrics.measure_stale,
    Event.JOBS_RESCUED: metrics.measure_rescue,
    Event.BREAKER_OPENED: metrics.measure_opening,
}

Subscriber = Callable[[Mapping[str, Any]], None]
# Each subscriber, with the job types whose events it wants; None for all.
_subscribers: dict[Event, list[tuple[Subscriber, Container[str] | None]]] = defaultdict(list)


def subscribe(
    event: Event, subscriber: Subscriber, *, job_types: Container[str] | None = None
) -> None:
    """Call `subscriber` with the fields of each such event, in the thread that emits it.

    That is mostly a worker's own thread, so be quick, and name the job types if some are enough. An
    error is logged and stops nothing. A second call with the same arguments changes nothing.
    """
    subscription = subscriber, job_types
    # `AppConfig.ready` runs again in a test that changes INSTALLED_APPS.
    if subscription not in _subscribers[event]:
        _subscribers[event].append(subscription)


def emit(event: Event, **fields: Any) -> None:
    """Log and count the event, and call its subscribers.

    Fields are ids, names, counts and seconds: never payload or text.
    """
    telemetry.log(event.value, fields, problem=event in PROBLEMS)
    measure = _MEASURED.get(event)
    if measure is not None:
        measure(fields)
    for subscriber, job_types in _subscribers.get(event, ()):
        if job_types is None or fields.get("job_type") in job_types:
            _notify(subscriber, event, fields)


def _notify(subscriber: Subscriber, event: Event, fields: Mapping[str, Any]) -> None:
    try:
        subscriber(fields)
    except BaseException as error:  # noqa: BLE001 - even its exit must not take the worker down
        failed = {
            "to": event.value,
            "subscriber": name_of(subscriber),
            "error_class": class_path(error),
        }
        telemetry.log(Event.SUBSCRIBER_FAILED.value, failed, problem=True)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a hook or a subscriber.

    Its `repr` is not used: it shows the arguments of a partial, which may be secrets.
    """
    while isinstance(function := inspect.unwrap(function), partial):
        function = function.func
    return qualified_name(function if hasattr(function, "__qualname__") else type(function))


def emit_settled(batch: Sequence[Settlement], report: SettleReport) -> FinishedAttempts:
    """Emit the ends of these attempts, after they were stored; return those that were not stale."""
    tokens = {claim.lease_token for claim in report.stale}
    finished, stale = AttemptsByKind(), AttemptsByKind()
    statuses = report.statuses
    for claim, outcome, ran_seconds, _ in batch:
        token = claim.lease_token
        status = statuses.get(claim.job_id)
        if status is not None and type(outcome) is Completed and token not in tokens:
            # The case of nearly all attempts.
            finished.add(claim, COMPLETED, status, None, ran_seconds)
            continue
        before = report.before.get(token)
        name, error_class = OUTCOMES[type(outcome)], _error_class(outcome)
        if before is Status.COMPLETED and name != COMPLETED:
            # Completed by `ctx.transaction()`: what the handler did afterwards changes nothing.
            error = {"error_class": error_class, "job_id": str(claim.job_id)}
            emit(Event.FAILED_AFTER_COMPLETION, job_type=claim.job_type, **error)
            if isinstance(outcome, Retry | DeadLettered):
                _log_failure(claim, before, outcome, final=True)
            name, error_class = COMPLETED, None
        status = status or before
        if token in tokens:
            stale.add(claim, name, status, error_class, ran_seconds)
            continue
        finished.add(claim, name, status, error_class, ran_seconds)
        if isinstance(outcome, Retry | DeadLettered) and error_class is not None:
            _log_failure(claim, status, outcome, final=isinstance(outcome, DeadLettered))
    for fields in telemetry.fields_of(stale):
        emit(Event.ATTEMPT_STALE, **fields)
    _emit_finished(finished)
    return finished


def _log_failure(
    claim: Claim, status: Status | None, outcome: Retry | DeadLettered, *, final: bool
) -> None:
    failure = outcome.failure
    fields = {
        "job_type": claim.job_type,
        "job_id": str(claim.job_id),
        "tenant_id": claim.firm_id,
        "correlation_id": claim.correlation_id,
        "attempt": claim.attempts,
        "status": None if status is None else str(status),
        "error_class": failure.error_class,
        "error": failure.message,
        # As text, because a traceback object would bring the frames' variables along.
        "exception": failure.traceback,
    }
    telemetry.log_failure(fields, final=final)


def measured(finished: FinishedAttempts) -> Iterator[Measured]:
    """Yield the attempts that roll-ups measure: not those that were snoozed or released."""
    for kind, same in finished.items():
        if kind.outcome in ENDED:
            waited, ran = [one.wait_s for one in same], [one.run_s for one in same]
            failed = kind.error_class is not None
            yield Measured(kind.tenant_id, kind.category, kind.job_type, waited, ran, failed)


def emit_rescued(report: RescueReport) -> None:
    """Emit what a rescue took back, and the ends of the dead workers' attempts."""
    emit(
        Event.JOBS_RESCUED,
        workers=report.workers,
        rescued=report.rescued,
        dead_lettered=report.dead_lettered,
    )
    finished = AttemptsByKind()
    for one in report.ended:
        finished.add(
            one.job, "rescued", one.status, one.failure.error_class, _recorded_run(one.job)
        )
    _emit_finished(finished)
    for one in report.ended:
        if one.status is not Status.PENDING:
            emit(
                Event.JOB_GIVEN_UP,
                job_id=str(one.job.job_id),
                job_type=one.job.job_type,
                tenant_id=one.job.firm_id,
                status=one.status,
            )


def emit_released(released: Sequence[tuple[Claim | InFlightJob, Status]]) -> None:
    """Emit that claims, each with its new status, were given back before their handlers started."""
    if released:
        emit(Event.JOBS_RELEASED, jobs=len(released))
        finished = AttemptsByKind()
        for job, status in released:
            finished.add(job, "released", status, None, None)
        _emit_finished(finished)


def _recorded_run(job: Claim | InFlightJob) -> float | None:
    return job.ran_seconds if isinstance(job, InFlightJob) else None


def _emit_finished(attempts: FinishedAttempts) -> None:
    telemetry.log_many(Event.ATTEMPT_FINISHED.value, attempts)
    metrics.measure_attempts(attempts)
    for subscriber, job_types in _subscribers.get(Event.ATTEMPT_FINISHED, ()):
        wanted = {
            kind: same
            for kind, same in attempts.items()
            if job_types is None or kind.job_type in job_types
        }
        for fields in telemetry.fields_of(wanted):
            _notify(subscriber, Event.ATTEMPT_FINISHED, fields)


def _error_class(outcome: Outcome) -> str | None:
    return outcome.failure.error_class if isinstance(outcome, Retry | DeadLettered) else None


def _emit_breaker_change(breaker: breakers.BreakerChange) -> None:
    of_breaker = {"job_type": breaker.job_type, "tenant_id": breaker.firm_id}
    if breaker.limit_key:
        of_breaker["limit_key"] = breaker.limit_key
    if breaker.state is BreakerState.OPEN:
        why = {"fingerprint": breaker.fingerprint, "trips": breaker.trips}
        emit(Event.BREAKER_OPENED, **of_breaker, **why)
    elif breaker.state is BreakerState.CLOSED:
        emit(Event.BREAKER_CLOSED, **of_breaker)


breakers.subscribe(_emit_breaker_change)
