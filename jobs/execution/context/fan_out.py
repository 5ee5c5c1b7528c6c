"""Enqueues children, and a job that follows when they are settled, as one durable step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from jobs import registry
from jobs.engine import fan_in
from jobs.engine.claim import Claim
from jobs.engine.enqueue import (
    EnqueueResult,
    correlated,
    list_of_specs,
    refuse_other_than_specs,
    result_of,
)
from jobs.engine.insert import dispatch_after_commit, dispatch_groups
from jobs.engine.job_wait import priority_of
from jobs.engine.new_job import EnqueueSpec, new_job_at, new_jobs
from jobs.engine.steps import find_step
from jobs.errors import ArgumentsInvalid, Fault

Fields = Mapping[str, Any] | None
# A job type and its payload.
Then = tuple[str, Fields]
THEN_PARTS = 2


def type_of(then: Then) -> str:
    """Return the type of the job that follows.

    Raises:
        ArgumentsInvalid: it is not a type and its payload.
        PayloadInvalid: the type is not given by its name.
    """
    given: Any = then
    if isinstance(given, tuple | list) and len(given) == THEN_PARTS:
        job_type: str = given[0] if isinstance(given[0], str) else registry.get(given[0]).name
        return job_type
    message = f'must be a type and its payload, ("name", {{…}}), not {type(given).__name__}'
    raise ArgumentsInvalid([Fault("then", "wrong_type", message)])


def fan_out(
    claim: Claim, name: str, specs: Sequence[EnqueueSpec], then: Then
) -> list[EnqueueResult]:
    """Return the results of the step `name`; run it if it has not run yet."""
    stored = find_step(claim, name)
    if stored is None:
        return _store(claim, name, specs, then)
    return [EnqueueResult(UUID(job_id), created=created) for job_id, created in stored[0]]


def _store(
    claim: Claim, name: str, specs: Sequence[EnqueueSpec], then: Then
) -> list[EnqueueResult]:
    job_type, payload = then
    specs = list_of_specs(specs)
    inherited = priority_of(claim.job_id)
    last = correlated(EnqueueSpec(job_type, payload), claim.correlation_id)
    job = new_job_at("then", _inheriting(last, inherited), claim.firm_id)
    job = job._replace(parent_id=claim.job_id)
    try:
        children = new_jobs((claim.firm_id, _inheriting(spec, inherited)) for spec in specs)
    except (AttributeError, TypeError):
        refuse_other_than_specs(specs)
        raise
    stored = fan_in.fan_out(claim, name, children, job)
    dispatch_after_commit(dispatch_groups(children))
    return [result_of(child, job_id) for child, job_id in zip(children, stored, strict=True)]


def _inheriting(spec: EnqueueSpec, priority: int) -> EnqueueSpec:
    """Return the spec with this priority, unless it or its type names another."""
    if spec.priority is not None or registry.get(spec.job_type).priority is not None:
        return spec
    return replace(spec, priority=priority)
