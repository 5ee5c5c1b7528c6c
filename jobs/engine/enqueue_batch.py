"""`enqueue_batch`: enqueues jobs as one batch, with jobs for its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from asgiref.sync import sync_to_async
from uuid_utils.compat import uuid7

from interfaces.correlation import current_correlation_id, new_correlation_id
from interfaces.plain_json import is_text
from jobs.engine.batches import NewBatch, store_batch
from jobs.engine.chains import FOR_THE_FIRST
from jobs.engine.current_job import refuse_query_in_event_loop
from jobs.engine.enqueue import (
    EnqueueResult,
    correlated,
    firm_in_scope,
    list_of_specs,
    refuse_other_than_specs,
    result_of,
    spec_faults,
)
from jobs.engine.insert import dispatch_after_commit, dispatch_groups
from jobs.engine.job_arguments import MAX_KEY_LENGTH, look_up_named_users
from jobs.engine.new_job import EnqueueSpec, new_job_at, new_jobs
from jobs.errors import ArgumentsInvalid, Fault
from jobs.payload_validator import text_faults
from tenants.models import Firm


@dataclass(frozen=True)
class BatchResult:
    """The batch and its jobs' results, in the given order; no jobs if the batch already existed."""

    batch_id: UUID
    created: bool
    jobs: Sequence[EnqueueResult]


def enqueue_batch(
    specs: Sequence[EnqueueSpec],
    *,
    on_failed: EnqueueSpec | None = None,
    on_settled: EnqueueSpec | None = None,
    on_completed: EnqueueSpec | None = None,
    name: str = "",
    batch_id: UUID | None = None,
    firm: Firm | int | None = None,
) -> BatchResult:
    """Store jobs as one batch, in the caller's transaction when there is one.

    `on_failed` is enqueued when the first job has failed for good; `on_settled` when all are
    settled, in whatever status; `on_completed` when all are completed, even if an operator had to
    restart one. Each is enqueued once, and validated now. Without any jobs, the last two are
    enqueued at once. A job that already has the idempotency key of one of these joins the batch in
    its place. Pass your own `batch_id` to name it in a callback's payload, or to enqueue a batch
    only once: if that batch exists, nothing is stored.

    Raises:
        PayloadInvalid: one of them is refused; nothing is stored.
        ArgumentsInvalid: one of them is no EnqueueSpec, a callback has an option that takes effect
            at enqueue, `name` is too long or no text, or the batch of this id is another firm's.
        MissingTenant, WrongPlace: as `enqueue`.
    """
    refuse_query_in_event_loop("aenqueue_batch")
    given = {"failed": on_failed, "settled": on_settled, "completed": on_completed}
    callbacks = {event: spec for event, spec in given.items() if spec is not None}
    if faults := _faults(callbacks, name, batch_id):
        raise ArgumentsInvalid(faults)
    firm_id = firm_in_scope(firm, "enqueue_batch")
    correlation_id = current_correlation_id() or new_correlation_id()
    specs = list_of_specs(specs)
    try:
        look_up_named_users(specs)
        jobs = new_jobs((firm_id, correlated(spec, correlation_id)) for spec in specs)
    except (AttributeError, TypeError):
        refuse_other_than_specs(specs)
        raise
    following = {
        event: new_job_at(f"on_{event}", correlated(spec, correlation_id), firm_id)
        for event, spec in callbacks.items()
    }
    batch_id = batch_id or uuid7()
    stored = store_batch(NewBatch(batch_id, firm_id, name, correlation_id, jobs, following))
    if stored is None:
        return BatchResult(batch_id, created=False, jobs=[])
    ids, replacing = stored
    dispatch_after_commit(dispatch_groups(jobs))
    results = [result_of(job, job_id, replacing) for job, job_id in zip(jobs, ids, strict=True)]
    return BatchResult(batch_id, created=True, jobs=results)


aenqueue_batch = sync_to_async(enqueue_batch)


def _faults(callbacks: dict[str, EnqueueSpec], name: object, batch_id: object) -> list[Fault]:
    faults = [
        fault for event, spec in callbacks.items() for fault in spec_faults(f"on_{event}", spec)
    ]
    faults = faults or [
        Fault(
            f"on_{event}.{option}",
            "conflict",
            "cannot be combined with jobs that are enqueued later",
        )
        for event, spec in callbacks.items()
        for option in FOR_THE_FIRST
        if getattr(spec, option) is not None
    ]
    if batch_id is not None and not isinstance(batch_id, UUID):
        message = f"must be a UUID, not {type(batch_id).__name__}"
        faults.append(Fault("batch_id", "wrong_type", message))
    if not is_text(name):
        return [*faults, Fault("name", "wrong_type", "must be a string")]
    if len(name) > MAX_KEY_LENGTH:
        faults.append(Fault("name", "too_long", f"must have at most {MAX_KEY_LENGTH} characters"))
    return [*faults, *text_faults("name", name)]
