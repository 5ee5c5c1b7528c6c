"""Edited payloads: how an operation checks one, and what the audit log keeps of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from pydantic_core import PydanticSerializationError

from interfaces.stored_json import UnreadableJSON
from jobs import registry
from jobs.engine.job_arguments import MAX_UNITS, key_faults, number_faults
from jobs.engine.new_job import derive, key_of_payload
from jobs.engine.redaction import canonical_json, redact_secrets, redaction_faults
from jobs.errors import Fault, PayloadInvalid
from jobs.models import IdempotencyKey, JobQueue
from jobs.operations.deletion import by_hand_faults
from jobs.payload_validator import JobPayload, encode_payload, parse_payload
from jobs.registry import JobType
from jobs.states import Status

# Columns that a type may derive from the payload. A value given by the caller of enqueue stays.
DERIVED = ("lock_key", "limit_key", "limit_units", "idempotency_key")


def edited_columns(job: JobQueue, payload: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the JSON text of an edited payload, and every column of the job that follows from it.

    Raises:
        PayloadInvalid: the payload is refused, or would change an idempotency key that must stay,
            or jobs of the type are enqueued only by their own operation.
    """
    declared = registry.get(job.job_type)
    text, model = _check(job, payload)
    whole = json.loads(text)
    faults = by_hand_faults(job.job_type)
    waits = job.status == Status.PENDING
    if waits and model.correlation_id != job.correlation_id:
        message = "cannot be changed: the job is found by it"
        faults.append(Fault("correlation_id", "not_possible", message))
    derived = _derived(job, declared, model)
    if "idempotency_key" in derived and (waits or _is_kept(job)):
        instead = "cancel this job" if waits else "discard this dead letter"
        message = (
            f"would change the idempotency key from {job.idempotency_key!r} to "
            f"{derived.pop('idempotency_key')!r}: {instead} and enqueue a new job"
        )
        faults.append(Fault("payload", "changes_idempotency_key", message))
    for name in ("lock_key", "limit_key", "idempotency_key"):
        if derived.get(name) is not None:
            faults += key_faults(name, derived[name])
    if "limit_units" in derived:
        faults += number_faults("limit_units", derived["limit_units"], 1, MAX_UNITS)
    if faults:
        raise PayloadInvalid(job.job_type, faults)
    return text, {"payload": whole, "payload_version": str(whole["version"]), **derived}


def _derived(job: JobQueue, declared: JobType, new: JobPayload) -> dict[str, Any]:
    """Return the columns derived from the new payload that differ from the job's."""
    try:
        old = parse_payload(declared, json.dumps(job.payload, default=str), job.firm_id)
    except PayloadInvalid:
        # The code no longer accepts the old payload.
        old = None
    derived = {}
    for name in DERIVED:
        now, value_of = getattr(job, name), _function_of(declared, name)
        if value_of is None:
            continue
        value = value_of(new)
        if value != now and _was_derived(name, value_of, old, now):
            derived[name] = value
    return derived


def _function_of(declared: JobType, name: str) -> Callable[[JobPayload], Any] | None:
    """Return what derives the column from a payload, if anything does."""
    if callable(getattr(declared, name)):
        return partial(derive, declared, name)
    return partial(_made_key, declared) if name == "idempotency_key" else None


def _made_key(declared: JobType, payload: JobPayload) -> str | None:
    """Return the key that is made of the payload where one is kept and nobody gave one."""
    try:
        return key_of_payload(declared, payload)
    except PydanticSerializationError:
        # A job of such a payload has no such key: it could not have been enqueued.
        return None


def _was_derived(
    name: str, value_of: Callable[[JobPayload], Any], old: JobPayload | None, now: object
) -> bool:
    with suppress(PayloadInvalid):
        if old is not None:
            return bool(value_of(old) == now)
    # The old payload is not readable, so nobody knows. Lock and limit keys then follow the new one,
    # because they protect the work; the idempotency key stays, because callers rely on it.
    return name != "idempotency_key"


def _is_kept(job: JobQueue) -> bool:
    """Say whether the idempotency key stays the job's even when the job is over."""
    keys = IdempotencyKey.objects.unscoped("the job is locked")
    return bool(keys.filter(firm_id=job.firm_id, job_id=job.pk).exists())


def why_refused(job: JobQueue) -> str:
    """Return why this code refuses the job's payload as it is stored; "" if it reads it."""
    declared = registry.find(job.job_type)
    if declared is None:
        return "its type is not known here"
    payload: object = job.payload
    if isinstance(payload, UnreadableJSON):
        return "it is nested too deeply to be read"
    try:
        parse_payload(declared, json.dumps(payload), job.firm_id)
    except PayloadInvalid as error:
        return "; ".join(map(str, error.faults))
    return ""


def payload_difference(old: object, new: str) -> tuple[object, object]:
    """Return the top-level fields that differ from the JSON text `new`, before and after.

    Secrets are masked; all of the payload is returned when the old one is no object.
    """
    before, after = _changed_fields(old, json.loads(new))
    return redact_secrets(before), redact_secrets(after)


def _check(job: JobQueue, payload: Mapping[str, Any]) -> tuple[str, JobPayload]:
    """Return the whole edited payload of a job as JSON text and as its type's model.

    Envelope fields that it leaves out are the job's, with the version that the type has now.
    """
    declared = registry.get(job.job_type)
    if isinstance(payload, Mapping):
        envelope = {
            "tenant_id": job.firm_id,
            "version": declared.version,
            "correlation_id": job.correlation_id,
        }
        payload = {**envelope, **payload}
    text = encode_payload(declared, payload)
    if faults := redaction_faults(payload):
        raise PayloadInvalid(job.job_type, faults)
    return text, parse_payload(declared, text, job.firm_id)


def _changed_fields(old: object, new: dict[str, Any]) -> tuple[object, dict[str, Any]]:
    if not isinstance(old, dict):
        return old, new
    fields = [
        name
        for name in sorted(old.keys() | new.keys())
        if (name in old) != (name in new)
        or canonical_json(old.get(name)) != canonical_json(new.get(name))
    ]
    return (
        {name: old[name] for name in fields if name in old},
        {name: new[name] for name in fields if name in new},
    )
