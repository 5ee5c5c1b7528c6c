"""Edited payloads: how an operation checks one, and what the audit log keeps of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from interfaces.stored_json import UnreadableJSON
from jobs import registry
from jobs.engine.redaction import canonical_json, redact_secrets, redaction_faults
from jobs.errors import PayloadInvalid
from jobs.models import JobQueue
from jobs.payload_validator import JobPayload, encode_payload, parse_payload


def check_payload(job: JobQueue, payload: Mapping[str, Any]) -> tuple[str, JobPayload]:
    """Return the whole edited payload of a job as JSON text and as its type's model.

    Without envelope it gets the job's, and the version that the type has now.

    Raises:
        PayloadInvalid: it is refused, or holds the mask that hides a secret.
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


def why_refused(job: JobQueue) -> str:
    """Return why this code refuses the job's payload as it is stored; "" if it reads it."""
    declared = registry.find(job.job_type)
    if declared is None:
        return "its type is unknown here"
    payload: object = job.payload
    if isinstance(payload, UnreadableJSON):
        return "it is nested too deeply to be read"
    try:
        parse_payload(declared, json.dumps(payload), job.firm_id)
    except PayloadInvalid as error:
        return "; ".join(f"{fault.field}: {fault.message}" for fault in error.faults)
    return ""


def payload_difference(old: object, new: str) -> tuple[object, object]:
    """Return the top-level fields that differ from the JSON text `new`, before and after.

    Secrets are masked; all of the payload is returned when the old one is no object.
    """
    before, after = _changed_fields(old, json.loads(new))
    return redact_secrets(before), redact_secrets(after)


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
