"""Enqueues jobs: validates and stores them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Literal
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import transaction

from jobs.engine import dialects
from jobs.engine.current_job import current_job, refuse_query_in_event_loop
from jobs.engine.insert import DispatchGroup, dispatch, dispatch_groups, insert_keyless
from jobs.engine.job_arguments import look_up_named_users
from jobs.engine.job_wait import read_job, wait_until_settled, wait_until_settled_async
from jobs.engine.new_job import EnqueueSpec, NewJob, new_jobs
from jobs.engine.owner import firm_id_of, only_firm_id
from jobs.engine.replace import insert_or_replace
from jobs.engine.transactions import without_waiting
from jobs.errors import ArgumentsInvalid, Fault
from jobs.models import JobQueue
from jobs.registry.payload import MAX_FAULTS
from tenants.errors import MissingTenant
from tenants.models import Firm
from tenants.scope import current_scope

NAME_THE_FIRM = "there are several firms: pass `firm=`, or call it inside `with firm_scope(firm):`."
# How many jobs are stored at a time, while the next ones are validated.
BATCH = 250
NOTHING_REPLACED: frozenset[UUID] = frozenset()


# Not frozen, because creating one would take three times as long.
@dataclass
class EnqueueResult:
    """The job that was stored, or the one that already has the idempotency key.

    `replaced`: that job got the new payload, because of `on_conflict`.
    """

    job_id: UUID
    created: bool
    replaced: bool = False

    @cached_property
    def job(self) -> JobQueue:
        """The job's row, read once.

        Raises:
            UnknownJob: the job that has the key is deleted; the key is kept.
        """
        return read_job(self.job_id)

    def wait(self, timeout: float) -> JobQueue:
        """Return the job's row once it is settled, in whatever status; `timeout` is in seconds.

        Raises:
            NotSettled: the job was not settled in time; it continues. This is a TimeoutError.
            UnknownJob: as `job`.
            WrongPlace: called in a transaction, which cannot see the job change; or in a handler,
                which would occupy a worker: use `ctx.enqueue_many(…, then=…)` there.
        """
        return wait_until_settled(self.job_id, timeout)

    async def wait_async(self, timeout: float) -> JobQueue:
        """Return the job's row once it is settled; as `wait`, for coroutines."""
        return await wait_until_settled_async(self.job_id, timeout)


def enqueue(
    job_type: str,
    payload: Mapping[str, Any] | None = None,
    *,
    firm: Firm | int | None = None,
    user: Any = None,
    at: datetime | None = None,
    delay: timedelta | float | None = None,
    expires_at: datetime | None = None,
    priority: int | None = None,
    max_attempts: int | None = None,
    lock_key: str | None = None,
    limit_key: str | None = None,
    idempotency_key: str | None = None,
    correlation_id: str | None = None,
    unique_for: timedelta | float | None = None,
    on_conflict: Literal["replace", "debounce"] | None = None,
    max_wait: timedelta | float | None = None,
) -> EnqueueResult:
    """Store one job, in the caller's transaction if there is one: the two are rolled back together.

    `firm` defaults to the firm in scope, else the running job's, else the only firm. `at` is an
    aware time, `delay` a timedelta or seconds, added by the database. `lock_key`, `limit_key`
    and `idempotency_key` override what the type declares. For `unique_for`, a timedelta or seconds,
    the idempotency key stays taken by this job, even when it is settled; without a key, one is made
    of the type and the payload. If the job that has the key has not started,
    `on_conflict="replace"` gives it this payload and these options, but not this time; `"debounce"`
    this time too, but at most `max_wait` after that job was first enqueued.

    Raises:
        PayloadInvalid: the payload or an argument is refused; `errors` lists field, code, message.
        MissingTenant: no firm given, none in scope, and there are several.
        WrongPlace: in a coroutine.
    """
    refuse_query_in_event_loop("aenqueue")
    spec = EnqueueSpec(
        job_type,
        payload,
        at=at,
        delay=delay,
        expires_at=expires_at,
        priority=priority,
        max_attempts=max_attempts,
        lock_key=lock_key,
        limit_key=limit_key,
        idempotency_key=idempotency_key,
        correlation_id=correlation_id,
        user=user,
        unique_for=unique_for,
        on_conflict=on_conflict,
        max_wait=max_wait,
    )
    return enqueue_for_firms([(firm_in_scope(firm), spec)])[0]


def enqueue_many(
    specs: Sequence[EnqueueSpec], *, firm: Firm | int | None = None
) -> list[EnqueueResult]:
    """Store many jobs and return their results in the same order; all of them or none.

    Raises:
        PayloadInvalid: one of them is refused; nothing is stored.
        ArgumentsInvalid: one is no EnqueueSpec; nothing is stored.
        MissingTenant, WrongPlace: as `enqueue`.
    """
    specs = list_of_specs(specs)
    if not specs:
        return []
    refuse_query_in_event_loop("aenqueue_many")
    firm_id = firm_in_scope(firm)
    try:
        return enqueue_for_firms([(firm_id, spec) for spec in specs], named=len(specs) > 1)
    except (AttributeError, TypeError):
        refuse_other_than_specs(specs)
        raise


def list_of_specs(specs: Iterable[EnqueueSpec]) -> list[EnqueueSpec]:
    """Return the specs as a list, because a generator could not be read again to find faults.

    Raises:
        ArgumentsInvalid: they are neither a list nor another iterable.
    """
    try:
        return list(specs)
    except TypeError:
        refuse_other_than_specs(specs)
        raise


def refuse_other_than_specs(specs: object) -> None:
    """Refuse anything but EnqueueSpecs; called only after a failure, so good specs cost nothing.

    Raises:
        ArgumentsInvalid: something is no EnqueueSpec; the fault names its place.
    """
    if isinstance(specs, EnqueueSpec) or not isinstance(specs, Iterable):
        message = f"must be a list of EnqueueSpec, not {type(specs).__name__}"
        raise ArgumentsInvalid([Fault("jobs", "wrong_type", message)]) from None
    faults = [
        fault for place, spec in enumerate(specs) for fault in spec_faults(f"jobs.{place}", spec)
    ]
    if faults:
        raise ArgumentsInvalid(faults[:MAX_FAULTS]) from None


def spec_faults(name: str, spec: object) -> list[Fault]:
    """Return what is wrong with what should be an EnqueueSpec."""
    if isinstance(spec, EnqueueSpec):
        return []
    message = f"must be an EnqueueSpec, as `greet.spec(…)` returns, not {type(spec).__name__}"
    return [Fault(name, "wrong_type", message)]


def own_correlation_id(spec: EnqueueSpec) -> Any:
    """Return the correlation id that the caller gave, as an argument or in the payload, or None.

    One from the payload has not been checked yet.
    """
    if spec.correlation_id or not isinstance(spec.payload, Mapping):
        return spec.correlation_id or None
    return spec.payload.get("correlation_id")


def correlated(spec: EnqueueSpec, correlation_id: str) -> EnqueueSpec:
    """Return the spec with this correlation id, unless it has one of its own."""
    if own_correlation_id(spec) is not None:
        return spec
    return replace(spec, correlation_id=correlation_id)


def enqueue_for_firms(
    specs: Sequence[tuple[int, EnqueueSpec]], *, named: bool = False
) -> list[EnqueueResult]:
    """Store jobs of several firms, given by id; otherwise as `enqueue_many`.

    With `named`, the faults of a refused job say which of the specs it is.
    """
    # The proxy `connection` would look up the connection again at each attribute.
    database = transaction.get_connection()
    if len(specs) > 1:
        look_up_named_users(spec for _, spec in specs)
    many = len(specs) > BATCH and dialects.current().has_pipelines
    if many and not database.in_atomic_block:
        results, groups = without_waiting(lambda: _store_while_validating(specs, named=named))
    else:
        jobs = new_jobs(specs, named=named)
        stored, replacing = insert_or_replace(jobs, database=database)
        results = [
            result_of(job, job_id, replacing) for job, job_id in zip(jobs, stored, strict=True)
        ]
        groups = dispatch_groups(jobs)
    database.on_commit(lambda: dispatch(groups), robust=True)
    return results


def _store_while_validating(
    specs: Sequence[tuple[int, EnqueueSpec]], *, named: bool
) -> tuple[list[EnqueueResult], set[DispatchGroup]]:
    """Validate each batch while the database stores the one before.

    Jobs with an idempotency key are stored last, because `insert` has to put them in order. Nothing
    else of a batch is kept: the fewer objects there are, the less often Python collects garbage.
    """
    results: list[EnqueueResult] = []
    groups: set[DispatchGroup] = set()
    keyed: dict[int, NewJob] = {}
    for start in range(0, len(specs), BATCH):
        # The types' functions run here, where they see only what the caller may see.
        batch = new_jobs(specs[start : start + BATCH], first=start, named=named)
        keyed |= {start + n: job for n, job in enumerate(batch) if job.idempotency_key is not None}
        if keyless := [job for job in batch if job.idempotency_key is None]:
            insert_keyless(keyless)
        results += [result_of(job, job.job_id) for job in batch]
        groups |= dispatch_groups(batch)
    stored, replacing = insert_or_replace(list(keyed.values()))
    for place, job_id in zip(keyed, stored, strict=True):
        results[place] = result_of(keyed[place], job_id, replacing)
    return results, groups


def result_of(
    job: NewJob, job_id: UUID, replacing: Collection[UUID] = NOTHING_REPLACED
) -> EnqueueResult:
    """Return the result for this job; `job_id` is its own id, or that of the job with its key."""
    if job_id is job.job_id or job_id == job.job_id:
        return EnqueueResult(job_id, created=True)
    return EnqueueResult(job_id, created=False, replaced=job.job_id in replacing)


aenqueue = sync_to_async(enqueue)
aenqueue_many = sync_to_async(enqueue_many)


def firm_in_scope(firm: Firm | int | None, call: str = "enqueue") -> int:
    """Return the id of `firm`, else of the firm in scope, the running job's, or the only one.

    `call` is the function that was called, for the error.

    Raises:
        MissingTenant: there are several firms and nothing says which.
        ArgumentsInvalid: there is no such firm, or it is no firm.
    """
    if firm is not None:
        return firm_id_of(firm)
    scope = current_scope()
    if scope is not None and scope.only_firm_id is not None:
        return scope.only_firm_id
    running = current_job()
    if running is not None:
        return running.firm_id
    firm_id = only_firm_id()
    if firm_id is None:
        raise MissingTenant(call, NAME_THE_FIRM)
    return firm_id
