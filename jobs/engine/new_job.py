"""Validates jobs to enqueue: fills in the envelope, checks payload and arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Literal, NamedTuple
from uuid import UUID

from django.db import DatabaseError
from uuid_utils.compat import uuid7

from interfaces.correlation import current_correlation_id, new_correlation_id
from jobs import registry
from jobs.engine.current_job import current_job
from jobs.engine.job_arguments import SPAN_RANGE, argument_faults, user_id
from jobs.errors import LONGEST_WAIT_SECONDS, Fault, PayloadInvalid
from jobs.payload_validator import read_payload
from jobs.registry import JobPayload, JobType
from jobs.registry.payload import made_defaults, secrets_in
from jobs.states import CountedBy, OnConflict, Priority

NORMAL = Priority.NORMAL.value


# Not frozen, because creating one would take three times as long.
@dataclass
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
    limit_key: str | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    user: Any = None
    unique_for: timedelta | float | None = None
    on_conflict: Literal["replace", "debounce"] | None = None
    max_wait: timedelta | float | None = None


class NewJob(NamedTuple):
    """A validated job, as it will be stored. Times are aware, `delay` is seconds.

    The values of `insert_sql.columns` come first and in their order, so that a tuple is a row.
    """

    job_id: UUID
    firm_id: int
    category: str
    job_type: str
    payload_version: str
    payload: str
    correlation_id: str
    priority: int
    max_attempts: int
    user_id: Any = None
    parent_id: UUID | None = None
    run_at: datetime | None = None
    delay: float = 0.0
    expires_at: datetime | None = None
    lock_key: str | None = None
    lock_limit: int = 1
    lock_counted_by: str = CountedBy.FIRM.value
    limit_key: str | None = None
    limit_units: int = 1
    idempotency_key: str | None = None
    once_only: bool = False
    # In seconds. A once-only job has None, and keeps its key for ever.
    unique_for: float | None = None
    on_conflict: OnConflict | None = None
    # Seconds.
    max_wait: float | None = None

    @property
    def keeps_key(self) -> bool:
        """Whether the idempotency key stays taken after the job is settled."""
        return (self.once_only or self.unique_for is not None) and self.idempotency_key is not None


def new_job(spec: EnqueueSpec, firm_id: int) -> NewJob:
    """Validate one job and return it as it will be stored.

    Raises:
        PayloadInvalid: the payload or an argument is refused.
    """
    declared = registry.get(spec.job_type)
    payload = _with_envelope(declared, spec, firm_id)
    text, model = _encoded(declared, payload, firm_id)
    lock_key = spec.lock_key
    if lock_key is None and declared.lock_key is not None:
        lock_key = derive(declared, "lock_key", model)
    limit_key = spec.limit_key
    if limit_key is None and declared.limit_key is not None:
        limit_key = derive(declared, "limit_key", model)
    units = declared.limit_units
    idempotency_key, unique_for = _key(declared, spec, model)
    running = current_job()
    # By position, in the order of the fields, because keywords would take three times as long.
    job = NewJob(
        uuid7(),
        firm_id,
        declared.category.value,
        declared.name,
        str(payload["version"]),
        text,
        model.correlation_id,
        _priority(declared) if spec.priority is None else spec.priority,
        declared.retry.max_attempts if spec.max_attempts is None else spec.max_attempts,
        None if spec.user is None else user_id(declared, spec.user),
        running.job_id if running and running.firm_id == firm_id else None,
        spec.at,
        0.0 if spec.delay is None else _seconds(declared, "delay", spec.delay),
        spec.expires_at,
        lock_key,
        declared.lock_limit,
        str(declared.lock_counted_by),
        limit_key,
        units if isinstance(units, int) else derive(declared, "limit_units", model),
        idempotency_key,
        declared.once_only,
        None if declared.once_only else unique_for,
        None if spec.on_conflict is None else _on_conflict(declared, spec, idempotency_key),
        None if spec.max_wait is None else _max_wait(declared, spec),
    )
    if faults := argument_faults(job):
        raise PayloadInvalid(declared.name, faults)
    return job


def new_jobs(
    specs: Iterable[tuple[int, EnqueueSpec]], *, first: int = 0, named: bool = True
) -> list[NewJob]:
    """Validate many jobs, each with its firm; `first` is the place of the first in the caller's list.

    Raises:
        PayloadInvalid: one is refused; its faults say which, unless the caller has no list (`named`).
    """
    jobs: list[NewJob] = []
    try:
        jobs.extend(new_job(spec, firm_id) for firm_id, spec in specs)
    except PayloadInvalid as error:
        if named:
            _add_place(error, f"jobs.{first + len(jobs)}")
        raise
    return jobs


def new_job_at(place: str, spec: EnqueueSpec, firm_id: int) -> NewJob:
    """Validate the job that the caller gave as the argument `place`.

    Raises:
        PayloadInvalid: it is refused; its faults name the argument.
    """
    try:
        return new_job(spec, firm_id)
    except PayloadInvalid as error:
        _add_place(error, place)
        raise


def _add_place(error: PayloadInvalid, place: str) -> None:
    faults = [replace(fault, field=f"{place}.{fault.field}") for fault in error.faults]
    # Of this very error, because it may be an UnknownJobType.
    PayloadInvalid.__init__(error, error.job_type, faults)


def derive(declared: JobType, option: str, model: JobPayload) -> Any:
    """Return what the type's own function for `option`, such as its lock key, makes of the payload.

    Raises:
        PayloadInvalid: the function raised; its error, whose text may quote the payload, is the cause.
    """
    try:
        return getattr(declared, option)(model)
    except (PayloadInvalid, DatabaseError):
        raise
    except Exception as error:
        message = f"cannot be derived from this payload: its function raised {type(error).__name__}"
        raise PayloadInvalid(declared.name, [Fault(option, "function_failed", message)]) from error


def _key(
    declared: JobType, spec: EnqueueSpec, model: JobPayload
) -> tuple[str | None, float | None]:
    """Return the idempotency key, and for how many seconds it is kept."""
    key = spec.idempotency_key
    if key is None and declared.idempotency_key is not None:
        key = derive(declared, "idempotency_key", model)
    unique_for = declared.unique_for if spec.unique_for is None else spec.unique_for
    seconds = None if unique_for is None else _seconds(declared, "unique_for", unique_for)
    if key is None and (declared.once_only or seconds is not None):
        key = key_of_payload(declared, model)
    return key, seconds


def _priority(declared: JobType) -> int:
    return NORMAL if declared.priority is None else declared.priority


def _with_envelope(declared: JobType, spec: EnqueueSpec, firm_id: int) -> dict[str, Any]:
    """Return the payload with the envelope fields that the caller left out."""
    envelope: dict[str, Any] = {
        "tenant_id": firm_id,
        "version": declared.version,
        "correlation_id": spec.correlation_id or current_correlation_id() or new_correlation_id(),
    }
    if spec.payload is None:
        return envelope
    # `dict` is named first because checking for an abstract class is slow.
    if not isinstance(spec.payload, (dict, Mapping)):
        raise PayloadInvalid(declared.name, [_no_fields(spec.payload)])
    envelope.update(spec.payload)
    if spec.correlation_id:
        # The argument prevails, because the payload may be a copy of another job's.
        envelope["correlation_id"] = spec.correlation_id
    return envelope


def _no_fields(payload: object) -> Fault:
    message = f"must be a dict of the payload's fields, not {type(payload).__name__}"
    return Fault("payload", "wrong_type", message)


def _encoded(declared: JobType, payload: dict[str, Any], firm_id: int) -> tuple[str, JobPayload]:
    """Return the payload as it is stored, and its model."""
    text, model = read_payload(declared, payload, firm_id)
    if payload["version"] == declared.version and (made := made_defaults(model)):
        text, model = read_payload(declared, {**payload, **made}, firm_id)
    return text, model


def key_of_payload(declared: JobType, model: JobPayload) -> str:
    """Return a key that all jobs of the type with this payload share."""
    fields = model.model_dump_json(exclude={"tenant_id", "version", "correlation_id"})
    # Dumped, all secrets are alike.
    hidden = "".join(map(repr, secrets_in(model)))
    return f"{declared.name}:{sha256((fields + hidden).encode()).hexdigest()}"


def _on_conflict(declared: JobType, spec: EnqueueSpec, key: str | None) -> OnConflict:
    if key is None:
        message = "needs an idempotency key: without one there is no conflict"
        raise PayloadInvalid(declared.name, [Fault("on_conflict", "conflict", message)])
    try:
        chosen = OnConflict(spec.on_conflict or "")
    except ValueError as error:
        fault = Fault("on_conflict", "unknown_choice", "must be replace or debounce")
        raise PayloadInvalid(declared.name, [fault]) from error
    if chosen is OnConflict.DEBOUNCE and spec.delay is None and spec.at is None:
        message = "is required to debounce, unless at is given; 0 makes the job due at once"
        raise PayloadInvalid(declared.name, [Fault("delay", "required", message)])
    return chosen


def _max_wait(declared: JobType, spec: EnqueueSpec) -> float:
    seconds = _seconds(declared, "max_wait", 0 if spec.max_wait is None else spec.max_wait)
    if spec.on_conflict != "debounce":
        fault = Fault("max_wait", "conflict", "is only for on_conflict='debounce'")
    elif not 0 < seconds <= LONGEST_WAIT_SECONDS:
        fault = Fault("max_wait", "out_of_range", SPAN_RANGE)
    else:
        return seconds
    raise PayloadInvalid(declared.name, [fault])


def _seconds(declared: JobType, name: str, wait: object) -> float:
    if isinstance(wait, timedelta):
        return wait.total_seconds()
    # A text or a boolean is refused, as in a type's declaration, because it is surely a mistake.
    if not isinstance(wait, int | float) or isinstance(wait, bool):
        message = f"must be a timedelta or a number of seconds, not {type(wait).__name__}"
        raise PayloadInvalid(declared.name, [Fault(name, "wrong_type", message)])
    try:
        return float(wait)
    except OverflowError:
        return math.inf
