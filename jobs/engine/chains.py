"""`enqueue_chain`: jobs one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from asgiref.sync import sync_to_async

from interfaces.correlation import current_correlation_id, new_correlation_id
from jobs.engine.current_job import refuse_query_in_event_loop
from jobs.engine.enqueue import (
    EnqueueResult,
    correlated,
    firm_in_scope,
    list_of_specs,
    own_correlation_id,
    result_of,
    spec_faults,
)
from jobs.engine.fan_in import store_chain
from jobs.engine.insert import dispatch_after_commit, dispatch_groups
from jobs.engine.new_job import EnqueueSpec, new_jobs
from jobs.errors import ArgumentsInvalid, Fault
from tenants.models import Firm

LONGEST_CHAIN = 100
# Options that take effect at enqueue, which is later for all jobs but the first.
FOR_THE_FIRST = ("at", "expires_at", "on_conflict", "max_wait")


def enqueue_chain(specs: Sequence[EnqueueSpec], *, firm: Firm | int | None = None) -> EnqueueResult:
    """Store jobs that run one after the other; return the result of the first.

    Each job is enqueued when the job before it, its parent, is completed; its `delay` counts from
    then. If a job is canceled, failed or dead-lettered, the jobs after it wait: they follow once an
    operator has restarted it and it is completed, and are dropped if it is deleted. All jobs are
    validated now, and have the correlation id of the first unless they have their own. If another
    job has the first one's idempotency key, nothing is stored; if `on_conflict` replaces that job,
    the others replace the jobs that were to follow it. A chain has at most LONGEST_CHAIN jobs, and
    is stored in the caller's transaction if there is one.

    Raises:
        PayloadInvalid: one of them is refused; nothing is stored.
        ArgumentsInvalid: there is no job, or there are too many, one is no EnqueueSpec, or one
            after the first has an option that is for the first only.
        MissingTenant, WrongPlace: as `enqueue`.
    """
    refuse_query_in_event_loop("aenqueue_chain")
    specs = list_of_specs(specs)
    if faults := _faults(specs):
        raise ArgumentsInvalid(faults)
    firm_id = firm_in_scope(firm, "enqueue_chain")
    correlation_id = (
        own_correlation_id(specs[0]) or current_correlation_id() or new_correlation_id()
    )
    jobs = new_jobs((firm_id, correlated(one, correlation_id)) for one in specs)
    stored, replacing = store_chain(jobs)
    first, job_id = jobs[0], stored[0]
    dispatch_after_commit(dispatch_groups([first]))
    return result_of(first, job_id, replacing)


aenqueue_chain = sync_to_async(enqueue_chain)


def _faults(specs: Sequence[EnqueueSpec]) -> list[Fault]:
    if not 1 <= len(specs) <= LONGEST_CHAIN:
        return [
            Fault("jobs", "out_of_range", f"must be 1 to {LONGEST_CHAIN} jobs, not {len(specs)}")
        ]
    no_specs = [
        fault for place, spec in enumerate(specs) for fault in spec_faults(f"jobs.{place}", spec)
    ]
    return no_specs or [
        Fault(f"jobs.{place}.{name}", "conflict", "is for the first job of a chain")
        for place, spec in enumerate(specs)
        for name in FOR_THE_FIRST
        if place and getattr(spec, name) is not None
    ]
