"""Enqueues jobs: fills in the envelope, validates payload and arguments, stores them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from uuid_utils.compat import uuid7

from interfaces.correlation import (
    MAX_CORRELATION_ID_LENGTH,
    current_correlation_id,
    new_correlation_id,
)
from jobs import registry
from jobs.engine import dialects
from jobs.engine.current_job import current_job
from jobs.engine.insert import NewJob, dispatch, insert, insert_batch
from jobs.engine.job_wait import read_job, wait_until_settled, wait_until_settled_async
from jobs.engine.transactions import in_transaction, outside_engine, without_waiting
from jobs.errors import LONGEST_WAIT_SECONDS, Fault, PayloadInvalid
from jobs.models import JobQueue
from jobs.payload_validator import encode_payload, number_faults, parse_payload
from jobs.registry import JobType
from jobs.states import Priority
from tenants.errors import MissingTenant
from tenants.models import SYSTEM_SLUG, Firm
from tenants.scope import current_scope

MAX_KEY_LENGTH = 200
MAX_ATTEMPTS = 32_767
# That many are stored while the next are validated.
BATCH = 250
PRIORITIES = (min(Priority), max(Priority))


@dataclass(frozen=True)
class EnqueueSpec:
    """One job to enqueue; the fields mean what they mean to `enqueue`."""

    job_type: str
    payload: Mapping[str, Any] | None = None
    at: datetime | None = None
    delay: timedelta | float | None = None
    expires_at: datetime | None = None
    priority: int | None = None
    max_attempts: int | None = None
    lock_key: str | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    user: Any = None


@dataclass(frozen=True)
class EnqueueResult:
    """The job that was stored, or the one that already has the idempotency key."""

    job_id: UUID
    created: bool

    @cached_property
    def job(self) -> JobQueue:
        """The job's row, read once."""
        return read_job(self.job_id)

    def wait(self, timeout: float) -> JobQueue:
        """Return the job's row once it is settled, in whatever status; `timeout` is in seconds.

        Raises:
            NotSettled: it was not within `timeout`. It is a TimeoutError, and the job goes on.
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
    idempotency_key: str | None = None,
    correlation_id: str | None = None,
) -> EnqueueResult:
    """Store one job, in the caller's transaction when there is one: it rolls back with it.

    `firm` defaults to the firm in scope, else the running job's, else the only firm. `at` is an
    aware time, `delay` a timedelta or seconds, added by the database. `lock_key` and
    `idempotency_key` override what the type declares.

    Raises:
        PayloadInvalid: the payload or an argument is refused; `errors` lists field, code, message.
        MissingTenant: no firm given, none in scope, and there are several.
    """
    spec = EnqueueSpec(
        job_type,
        payload,
        at=at,
        delay=delay,
        expires_at=expires_at,
        priority=priority,
        max_attempts=max_attempts,
        lock_key=lock_key,
        idempotency_key=idempotency_key,
        correlation_id=correlation_id,
        user=user,
    )
    return enqueue_many([spec], firm=firm)[0]


def enqueue_many(
    specs: Sequence[EnqueueSpec], *, firm: Firm | int | None = None
) -> list[EnqueueResult]:
    """Store many jobs and return their results in the same order; all of them or none.

    Raises:
        PayloadInvalid: one of them is refused; nothing is stored.
        MissingTenant: as `enqueue`.
    """
    if not specs:
        return []
    firm_id = firm_in_scope(firm)
    return enqueue_for_firms([(firm_id, spec) for spec in specs])


def enqueue_for_firms(specs: Sequence[tuple[int, EnqueueSpec]]) -> list[EnqueueResult]:
    """Store jobs of several firms, given by id; otherwise as `enqueue_many`."""
    overlaps = dialects.current().has_pipelines and not connection.in_atomic_block
    if overlaps and len(specs) > BATCH:
        jobs, stored = in_transaction(lambda: _store_while_validating(specs))
    else:
        jobs = [new_job(spec, firm_id) for firm_id, spec in specs]
        stored = insert(jobs)
    transaction.on_commit(lambda: dispatch(jobs), robust=True)
    return [
        EnqueueResult(job_id, created=job_id == job.job_id)
        for job, job_id in zip(jobs, stored, strict=True)
    ]


def _store_while_validating(
    specs: Sequence[tuple[int, EnqueueSpec]],
) -> tuple[list[NewJob], list[UUID]]:
    """Validate each batch while the database stores the one before; return the jobs, as `insert`.

    Jobs with an idempotency key are stored last, because `insert` has to put them in order.
    """
    jobs: list[NewJob] = []
    with without_waiting():
        for start in range(0, len(specs), BATCH):
            # The functions of the types run here, and see what their caller may see.
            with outside_engine():
                batch = [new_job(spec, firm_id) for firm_id, spec in specs[start : start + BATCH]]
            if keyless := [job for job in batch if job.idempotency_key is None]:
                insert_batch(keyless)
            jobs += batch
        keyed = [job for job in jobs if job.idempotency_key is not None]
        stands_for = dict(zip((job.job_id for job in keyed), insert(keyed), strict=True))
    return jobs, [stands_for.get(job.job_id, job.job_id) for job in jobs]


aenqueue = sync_to_async(enqueue)
aenqueue_many = sync_to_async(enqueue_many)


def firm_in_scope(firm: Firm | int | None) -> int:
    """Return the id of `firm`, else of the firm in scope, the running job's, or the only one.

    Raises:
        MissingTenant: there are several firms and nothing says which.
    """
    if firm is not None:
        return firm if isinstance(firm, int) else int(firm.pk)
    scope = current_scope()
    if scope is not None and scope.only_firm_id is not None:
        return scope.only_firm_id
    running = current_job()
    if running is not None:
        return running.firm_id
    # Without any firms of the project's own, jobs belong to the reserved one.
    firms = list(Firm.objects.exclude(slug=SYSTEM_SLUG).values_list("pk", flat=True)[:2])
    if not firms:
        return Firm.objects.system().pk
    if len(firms) > 1:
        raise MissingTenant("enqueue")
    return firms[0]


def new_job(spec: EnqueueSpec, firm_id: int) -> NewJob:
    """Validate one job and return it as it will be stored.

    Raises:
        PayloadInvalid: the payload or an argument is refused.
    """
    declared = registry.get(spec.job_type)
    payload = _with_envelope(declared, spec, firm_id)
    text = encode_payload(declared, payload)
    model = parse_payload(declared, text, firm_id)
    lock_key = spec.lock_key
    if lock_key is None and declared.lock_key is not None:
        lock_key = declared.lock_key(model)
    idempotency_key = spec.idempotency_key
    if idempotency_key is None and declared.idempotency_key is not None:
        idempotency_key = declared.idempotency_key(model)
    running = current_job()
    job = NewJob(
        job_id=uuid7(),
        firm_id=firm_id,
        category=declared.category.value,
        job_type=declared.name,
        payload_version=str(payload["version"]),
        payload=text,
        correlation_id=model.correlation_id,
        priority=Priority.NORMAL if spec.priority is None else spec.priority,
        max_attempts=declared.retry.max_attempts
        if spec.max_attempts is None
        else spec.max_attempts,
        user_id=None if spec.user is None else _user_id(declared, spec.user),
        parent_id=running.job_id if running and running.firm_id == firm_id else None,
        run_at=spec.at,
        delay=_seconds(spec.delay),
        expires_at=spec.expires_at,
        lock_key=lock_key,
        lock_limit=declared.lock_limit,
        idempotency_key=idempotency_key,
        once_only=declared.once_only,
    )
    faults = _argument_faults(job)
    if faults:
        raise PayloadInvalid(declared.name, faults)
    return job


def _with_envelope(declared: JobType, spec: EnqueueSpec, firm_id: int) -> dict[str, Any]:
    """Return the payload with the envelope fields that the caller left out."""
    envelope = {
        "tenant_id": firm_id,
        "version": declared.version,
        "correlation_id": spec.correlation_id or current_correlation_id() or new_correlation_id(),
    }
    if spec.payload is None:
        return envelope
    if not isinstance(spec.payload, Mapping):
        raise PayloadInvalid(declared.name, [Fault("payload", "wrong_type", "must be an object")])
    return {**envelope, **spec.payload}


def _user_id(declared: JobType, user: Any) -> Any:
    """Return the id of a user that is given as such or by its id, in the type of the model's key."""
    try:
        return JobQueue._meta.get_field("user").to_python(getattr(user, "pk", user))
    except ValidationError as error:
        fault = Fault("user", "wrong_type", "must be a user, or the id of one")
        raise PayloadInvalid(declared.name, [fault]) from error


def _seconds(delay: timedelta | float | None) -> float:
    if delay is None:
        return 0.0
    return delay.total_seconds() if isinstance(delay, timedelta) else float(delay)


def _argument_faults(job: NewJob) -> list[Fault]:
    faults = []
    if not 1 <= len(job.correlation_id) <= MAX_CORRELATION_ID_LENGTH:
        message = f"must have 1 to {MAX_CORRELATION_ID_LENGTH} characters"
        faults.append(Fault("correlation_id", "wrong_length", message))
    faults += number_faults("priority", job.priority, *PRIORITIES)
    faults += number_faults("max_attempts", job.max_attempts, 1, MAX_ATTEMPTS)
    if not 0 <= job.delay <= LONGEST_WAIT_SECONDS:
        message = f"must be from 0 to {LONGEST_WAIT_SECONDS:,} seconds"
        faults.append(Fault("delay", "out_of_range", message))
    if job.run_at is not None and job.delay:
        faults.append(Fault("delay", "conflict", "give either at or delay"))
    for name, moment in (("at", job.run_at), ("expires_at", job.expires_at)):
        if moment is not None and moment.tzinfo is None:
            faults.append(Fault(name, "naive_time", "must carry a time zone"))
    for name, key in (("lock_key", job.lock_key), ("idempotency_key", job.idempotency_key)):
        if key is not None and (not 1 <= len(key) <= MAX_KEY_LENGTH or "\x00" in key):
            message = f"must have 1 to {MAX_KEY_LENGTH} characters and no NUL"
            faults.append(Fault(name, "wrong_length", message))
    return faults
