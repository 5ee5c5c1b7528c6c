"""What operators do to jobs and dead letters, through whichever door.

Every act is written to the audit log. `by` is a user, an `Actor` (a user and a door), or None for
the service itself. Inside a tenant scope only rows in sight are found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import transaction

from jobs import registry
from jobs.engine import cancel as canceling
from jobs.engine import overrides, userlocks
from jobs.engine import reprocess as reprocessing
from jobs.engine import retry as retrying
from jobs.engine.limits import Holds
from jobs.engine.lookup import read_job
from jobs.enqueue import enqueue
from jobs.errors import Fault, LimitInvalid, UnknownJob
from jobs.models import CircuitBreaker, ConcurrencyLock, DeadLetterQueue, JobQueue
from tenants.audit import Actor, as_actor
from tenants.models import Firm

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    By = Actor | AbstractBaseUser | None


def retry(job: JobQueue | UUID | str, *, by: By = None, reason: str = "") -> JobQueue:
    """Send a dead-lettered, failed or canceled job round again; its attempts start over.

    An open dead letter of the job closes as reprocessed. Returns the job as it is now.

    Raises:
        UnknownJob: no such job in sight.
        WrongState: the job is in another status (KeyHeld: a live job holds its idempotency key).
    """
    job_id = _id(job)
    retrying.retry(job_id, by=as_actor(by), reason=reason)
    return read_job(job_id)


def cancel(job: JobQueue | UUID | str, *, by: By = None, reason: str = "") -> JobQueue:
    """Cancel a pending job at once; ask a running one to stop at its next checkpoint.

    Returns the job as it is now: `canceled`, or running with `cancel_requested_at` set.

    Raises:
        UnknownJob: no such job in sight.
        WrongState: the job is over.
    """
    job_id = _id(job)
    canceling.cancel(job_id, by=as_actor(by), reason=reason)
    return read_job(job_id)


def reprocess(
    dead_letter: DeadLetterQueue | UUID | str,
    *,
    by: By = None,
    payload: Mapping[str, Any] | None = None,
    priority: int | None = None,
    note: str = "",
) -> JobQueue:
    """Send the dead letter's job round again, with an edited payload when one is given.

    Returns the job as it is now.

    Raises:
        UnknownJob: no such dead letter in sight.
        WrongState: somebody decided before (KeyHeld: a live job holds its idempotency key).
        PayloadInvalid: the edited payload or the priority is refused.
    """
    job_id = reprocessing.reprocess(
        _id(dead_letter), by=as_actor(by), payload=payload, priority=priority, note=note
    )
    return read_job(job_id)


def discard(dead_letter: DeadLetterQueue | UUID | str, reason: str, *, by: By = None) -> None:
    """Give the dead letter's job up for good: it becomes failed.

    Raises:
        ReasonMissing: no reason given.
        UnknownJob: no such dead letter in sight.
        WrongState: somebody decided before.
    """
    reprocessing.discard(_id(dead_letter), reason, by=as_actor(by))


def escalate(
    dead_letter: DeadLetterQueue | UUID | str,
    reason: str,
    *,
    to: AbstractBaseUser | None = None,
    by: By = None,
) -> None:
    """Ask somebody by e-mail to look at a dead letter (`addressees`); it stays open.

    Raises:
        ReasonMissing: no reason given.
        UnknownJob: no such dead letter in sight.
        WrongState: somebody decided or escalated before.
    """
    letter_id = _id(dead_letter)
    with transaction.atomic():
        firm_id = reprocessing.escalate(letter_id, reason, to=to, by=as_actor(by))
        enqueue("escalation_notice", {"dead_letter_id": letter_id}, firm=firm_id)


def force_release(lock: ConcurrencyLock | UUID | str, reason: str, *, by: By = None) -> None:
    """Free a lock its holder will not free. A running job's lock stays: cancel the job instead.

    Raises:
        ReasonMissing: no reason given.
        UnknownJob: no such lock in sight.
        WrongState: a job in flight holds it.
    """
    userlocks.force_release(_id(lock), reason, by=as_actor(by))


def close_breaker(breaker: CircuitBreaker | UUID | str, reason: str, *, by: By = None) -> None:
    """Let the jobs run that a circuit breaker holds back; it counts anew from here.

    Raises:
        ReasonMissing: no reason given.
        UnknownJob: no such breaker in sight.
        WrongState: it is closed.
    """
    overrides.close(_id(breaker), reason, by=as_actor(by))


def open_breaker(job_type: str, firm: Firm | int, reason: str, *, by: By = None) -> None:
    """Hold a type's jobs of one firm back as if they had failed; one is tried after the cooldown.

    To stop them until further notice, `jobs.limits.pause` them.

    Raises:
        ReasonMissing: no reason given.
        LimitInvalid: the type is unknown or declares no breaker.
        WrongState: it is not closed.
        TenantMismatch: the firm is out of scope.
    """
    declared = registry.find(job_type)
    if declared is None or declared.breaker is None:
        fault = Fault("job_type", "no_breaker", f"{job_type!r} declares no circuit breaker")
        raise LimitInvalid([fault])
    firm_id = Holds(firm if isinstance(firm, int) else firm.pk).owner()
    overrides.open_by_hand(firm_id, job_type, declared.breaker, reason, by=as_actor(by))


def _id(
    thing: JobQueue | DeadLetterQueue | ConcurrencyLock | CircuitBreaker | UUID | str,
) -> UUID:
    if isinstance(thing, UUID):
        return thing
    if isinstance(thing, str):
        try:
            return UUID(thing)
        except ValueError as error:
            raise UnknownJob(f"{thing[:64]!r} is not an id") from error
    return UUID(str(thing.pk))
