"""Checks what a job type declares."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from jobs.registry.handlers import Handler
from jobs.registry.payload import JobPayload
from jobs.registry.scheduled import Scheduled
from jobs.states import CountedBy, Priority

if TYPE_CHECKING:
    from jobs.registry import JobType

MAX_TYPE_NAME_LENGTH = 100
MAX_QUEUE_NAME_LENGTH = 100


def check_declaration(job_type: JobType) -> None:
    """Check that a declaration does not contradict itself.

    Raises:
        ValueError: it does.
        TypeError: its payload is no JobPayload, its schedule no Scheduled, or its handler does not
            take (payload, ctx).
    """
    _check_classes(job_type)
    _check_names(job_type)
    _check_numbers(job_type)
    _check_keys(job_type)
    _check_signature(job_type)
    if job_type.schedule is not None:
        _check_scheduled_payload(job_type, job_type.schedule.payload)


def _check_classes(job_type: JobType) -> None:
    # Not every project runs a type checker.
    model: object = job_type.payload_model
    if not isinstance(model, type) or not issubclass(model, JobPayload):
        raise TypeError(f"{job_type.name}: payload must be a subclass of JobPayload")
    schedule: object = job_type.schedule
    if not isinstance(schedule, Scheduled | None):
        raise TypeError(f"{job_type.name}: schedule must be a Scheduled, not {schedule!r}")


def _check_names(job_type: JobType) -> None:
    if not 1 <= len(job_type.name) <= MAX_TYPE_NAME_LENGTH:
        raise ValueError(f"job type name must have 1 to {MAX_TYPE_NAME_LENGTH} characters")
    if not 1 <= len(job_type.queue) <= MAX_QUEUE_NAME_LENGTH:
        raise ValueError(
            f"{job_type.name}: queue must have 1 to {MAX_QUEUE_NAME_LENGTH} characters"
        )
    if job_type.version in job_type.upcasters:
        raise ValueError(f"{job_type.name}: an upcaster from the current version")


def _check_numbers(job_type: JobType) -> None:
    # A comparison with NaN is false.
    if not job_type.timeout_seconds > 0 or job_type.lock_limit < 1:
        raise ValueError(f"{job_type.name}: timeout_seconds and lock_limit must be above zero")
    if isinstance(job_type.limit_units, int) and job_type.limit_units < 1:
        raise ValueError(f"{job_type.name}: limit_units must be above zero")
    if job_type.priority is not None and job_type.priority not in set(Priority):
        raise ValueError(f"{job_type.name}: priority must be from 0 to 3")
    if job_type.retention is not None and job_type.retention <= timedelta(0):
        raise ValueError(f"{job_type.name}: retention must be above zero")


def _check_keys(job_type: JobType) -> None:
    if job_type.unique_for is not None and job_type.once_only:
        raise ValueError(f"{job_type.name}: once_only is for ever: leave out unique_for")
    if job_type.lock_counted_by not in (CountedBy.FIRM, CountedBy.ALL_FIRMS):
        raise ValueError(f"{job_type.name}: lock_counted_by must be firm or all_firms")


def _check_signature(job_type: JobType) -> None:
    try:
        signature = inspect.signature(job_type.handler)
    except ValueError:
        # Some functions that are written in C have none.
        return
    try:
        signature.bind("payload", "ctx")
    except TypeError as error:
        raise TypeError(
            f"{job_type.name}: {qualified_name(job_type.handler)}{signature} must take (payload, ctx):"
            f" {error}"
        ) from None


def _check_scheduled_payload(job_type: JobType, payload: Mapping[str, Any]) -> None:
    what = f"{job_type.name}: the payload of its schedule"
    envelope = {"tenant_id": 0, "version": job_type.version, "correlation_id": ""}
    try:
        text = json.dumps({**envelope, **payload}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} must be an object of JSON: {error}") from None
    if payload.get("version", job_type.version) != job_type.version:
        # An upcaster reads it.
        return
    try:
        job_type.payload_model.model_validate_json(text)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        told = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)
        raise ValueError(f"{what}: {told}") from None


def qualified_name(handler: Handler) -> str:
    """Return the module and name of the function that was decorated."""
    handler = inspect.unwrap(handler)
    return f"{handler.__module__}.{getattr(handler, '__qualname__', handler)}"
