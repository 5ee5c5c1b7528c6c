"""The operations that enqueue a job, or a chain of jobs, by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobs import registry
from jobs.engine.chains import enqueue_chain as store_chain
from jobs.engine.enqueue import EnqueueResult
from jobs.engine.enqueue import enqueue as store
from jobs.engine.new_job import EnqueueSpec
from jobs.engine.redaction import redaction_faults
from jobs.errors import Fault, PayloadInvalid, WrongState
from jobs.models import JobQueue
from jobs.operations.deletion import EXPORT_JOB_TYPE, by_hand_faults
from jobs.operations.operation import By, audit, operation
from jobs.states import CountedBy
from tenants.models import Firm, Role


def role_to_enqueue(*job_types: str) -> Role:
    """Return the role in a firm that enqueueing, or scheduling, jobs of these types by hand needs."""
    # All of a firm's data is for those alone who may download it.
    return Role.ADMIN if EXPORT_JOB_TYPE in job_types else Role.DEVELOPER


@operation
def enqueue(
    job_type: str,
    payload: Mapping[str, Any] | None = None,
    *,
    firm: Firm | int | None = None,
    by: By = None,
    reason: str = "",
    **options: Any,
) -> EnqueueResult:
    """Store one job, as `jobs.engine.enqueue` does with these `options`, and audit it.

    If a job has the idempotency key already, that one is returned; then nothing is audited, unless
    the call replaced its payload.

    Raises:
        PayloadInvalid: the payload or an option is refused, or the payload holds a mask, or jobs of
            the type are enqueued only by their own operation, as deletions are.
        MissingTenant: no firm given, none in scope, and there are several.
    """
    if faults := _faults(job_type, payload, options.get("lock_key")):
        raise PayloadInvalid(job_type, faults)
    result = store(job_type, payload, firm=firm, **options)
    _audit(result, by, reason)
    return result


@operation
def enqueue_chain(
    specs: Sequence[EnqueueSpec],
    *,
    firm: Firm | int | None = None,
    by: By = None,
    reason: str = "",
) -> EnqueueResult:
    """Store jobs that run one after the other, as `jobs.engine.chains` does, and audit the first.

    Raises:
        PayloadInvalid: one of them is refused, or its payload holds a mask.
        ArgumentsInvalid, MissingTenant: as `jobs.engine.chains.enqueue_chain`.
    """
    for place, spec in enumerate(specs):
        if faults := _faults(spec.job_type, spec.payload, spec.lock_key):
            named = [replace(fault, field=f"jobs.{place}.{fault.field}") for fault in faults]
            raise PayloadInvalid(spec.job_type, named)
    result = store_chain(specs, firm=firm)
    _audit(result, by, reason, chain=[spec.job_type for spec in specs])
    return result


def holder_is_deleted(result: EnqueueResult) -> WrongState:
    """Return the error for an idempotency key that is taken for good by a job that was deleted."""
    return WrongState(f"job {result.job_id} had this idempotency key but was deleted")


def _faults(job_type: str, payload: Mapping[str, Any] | None, lock_key: str | None) -> list[Fault]:
    return [
        *by_hand_faults(job_type),
        *redaction_faults(payload),
        *_lock_faults(job_type, lock_key),
    ]


def _lock_faults(job_type: str, lock_key: str | None) -> list[Fault]:
    """Return what is wrong with a lock key that a person gives.

    For a type whose lock counts over all firms none may be given: with a key of its own the job
    would escape that limit.
    """
    declared = registry.find(job_type)
    if lock_key is None or declared is None or declared.lock_counted_by == CountedBy.FIRM:
        return []
    message = f"cannot be given: the lock of {job_type} counts over all firms"
    return [Fault("lock_key", "not_possible", message)]


def _audit(result: EnqueueResult, by: By, reason: str, **more: Any) -> None:
    if result.created or result.replaced:
        rows = JobQueue.objects.unscoped("the job just stored")
        job = rows.only("firm_id", "job_type", "priority", "scheduled_at").get(pk=result.job_id)
        after: dict[str, Any] = {
            "job_type": job.job_type,
            "priority": job.priority,
            "scheduled_at": job.scheduled_at.isoformat(),
        }
        if result.replaced:
            after["replaced"] = True
        audit("job.enqueue", job, by, reason, after={**after, **more})
