"""Checks what a job type declares."""

from __future__ import annotations

import difflib
import inspect
import json
import math
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from jobs.breaker import Breaker
from jobs.errors import LONGEST_WAIT_SECONDS
from jobs.registry.handlers import Handler
from jobs.registry.payload import JobPayload, schema_faults
from jobs.registry.timetable import Scheduled
from jobs.retry import RetryPolicy
from jobs.states import Category, CountedBy, Priority

if TYPE_CHECKING:
    from jobs.registry import JobType

MAX_TYPE_NAME_LENGTH = 100
MAX_QUEUE_NAME_LENGTH = 100
MAX_VERSION_LENGTH = 20
_CHARACTERS = "printable characters"
# The largest value of a database's small integer.
MAX_LOCK_LIMIT = 32_767
NUMBER = (int, float)
# The class of each of these options, and its description. Those of NONE_FOR_NONE may be None.
OPTION_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "version": (str, 'a string such as "2.0"'),
    "upcasters": (Mapping, "a dict of functions, by the version that each reads"),
    "retry": (RetryPolicy, "a RetryPolicy"),
    "timeout_seconds": (NUMBER, "a number of seconds"),
    "lock_limit": (int, "a whole number"),
    "once_only": (bool, "True or False"),
    "unique_for": ((timedelta, *NUMBER), "a timedelta or a number of seconds"),
    "dead_letter": (bool, "True or False"),
    "breaker": (Breaker, "a Breaker"),
    "queue": (str, "a string"),
    "priority": (int, "a whole number"),
    "retention": (timedelta, "a timedelta"),
    "schedule": (Scheduled, "a Scheduled"),
}
NONE_FOR_NONE = frozenset({"unique_for", "breaker", "priority", "retention", "schedule"})
KEY_OPTIONS = ("lock_key", "limit_key", "idempotency_key")


def check_declaration(job_type: JobType) -> None:
    """Check that a declaration does not contradict itself.

    Raises:
        ValueError: the declaration contradicts itself.
        TypeError: an option is of the wrong type, or its handler does not take (payload, ctx) or
            is a generator.
    """
    check_name(job_type.name)
    _check_classes(job_type)
    _check_functions(job_type)
    _check_names(job_type)
    _check_numbers(job_type)
    _check_keys(job_type)
    _check_signature(job_type)
    if job_type.schedule is not None:
        _check_scheduled_payload(job_type, job_type.schedule.payload)


def check_name(name: object) -> None:
    """Refuse a type's name that is no string.

    Raises:
        TypeError: it is no string.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a job type must be a string, not {_kind(name)}")


def check_options(name: str, given: Collection[str], known: Collection[str]) -> None:
    """Refuse options that `@job` does not have, and suggest similar ones.

    Raises:
        TypeError: there is one.
    """
    for option in given:
        if option not in known:
            close = difflib.get_close_matches(option, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(sorted(known))}"
            raise TypeError(f"{name}: @job has no option {option!r}; {hint}")


def category_of(name: str, category: object) -> Category:
    """Return the category, given as such or by its name.

    Raises:
        ValueError: there is none of this name.
    """
    try:
        return Category(category)  # type: ignore[arg-type]
    except ValueError:
        known = ", ".join(Category)
        raise ValueError(f"{name}: category must be one of {known}, not {category!r}") from None


def _check_classes(job_type: JobType) -> None:
    # Not every project runs a type checker.
    model: object = job_type.payload_model
    if not isinstance(model, type) or not issubclass(model, JobPayload):
        raise TypeError(
            f"{job_type.name}: payload must be a subclass of JobPayload, or JobPayload"
            " itself if it has no fields"
        )
    for option, (right, what) in OPTION_TYPES.items():
        value = getattr(job_type, option)
        if value is None and option in NONE_FOR_NONE:
            continue
        # A bool is an int, too.
        if not isinstance(value, right) or (isinstance(value, bool) and right is not bool):
            raise TypeError(f"{job_type.name}: {option} must be {what}, not {_kind(value)}")
    category_of(job_type.name, job_type.category)


def _check_functions(job_type: JobType) -> None:
    for option in KEY_OPTIONS:
        key = getattr(job_type, option)
        if key is not None and not callable(key):
            raise TypeError(
                f"{job_type.name}: {option} must be a function of the payload, not {_kind(key)};"
                f" a fixed key goes to enqueue({option}=…)"
            )
    units: object = job_type.limit_units
    if not callable(units) and (not isinstance(units, int) or isinstance(units, bool)):
        raise TypeError(
            f"{job_type.name}: limit_units must be a whole number or a function of the payload,"
            f" not {_kind(units)}"
        )
    for version, upcaster in job_type.upcasters.items():
        if not callable(upcaster):
            raise TypeError(
                f"{job_type.name}: the upcaster of {version!r} must be a function of the older"
                f" payload, not {_kind(upcaster)}"
            )
    if not callable(job_type.handler):
        raise TypeError(
            f"{job_type.name}: @job decorates a function, not {_kind(job_type.handler)}"
        )
    if inspect.isgeneratorfunction(job_type.handler) or inspect.isasyncgenfunction(
        job_type.handler
    ):
        raise TypeError(
            f"{job_type.name}: {qualified_name(job_type.handler)} is a generator and would never "
            "run: return the result, without `yield`"
        )


def _kind(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _check_names(job_type: JobType) -> None:
    if not is_name(job_type.name, MAX_TYPE_NAME_LENGTH):
        raise ValueError(f"job type name must have 1 to {MAX_TYPE_NAME_LENGTH} {_CHARACTERS}")
    for option, most in (("queue", MAX_QUEUE_NAME_LENGTH), ("version", MAX_VERSION_LENGTH)):
        if not is_name(getattr(job_type, option), most):
            raise ValueError(f"{job_type.name}: {option} must have 1 to {most} {_CHARACTERS}")
    if job_type.version in job_type.upcasters:
        raise ValueError(f"{job_type.name}: an upcaster must not read the current version")


def is_name(text: str, most: int) -> bool:
    """Say whether the text can be stored and shown; NUL and lone surrogates are not printable."""
    return 1 <= len(text) <= most and text.isprintable()


def _check_numbers(job_type: JobType) -> None:
    # Infinity means no timeout; NaN fails both comparisons.
    timeout = job_type.timeout_seconds
    if not (0 < timeout <= LONGEST_WAIT_SECONDS or timeout == math.inf):
        raise ValueError(
            f"{job_type.name}: timeout_seconds must be above 0 and at most {LONGEST_WAIT_SECONDS:,} seconds"
        )
    if not 1 <= job_type.lock_limit <= MAX_LOCK_LIMIT:
        raise ValueError(f"{job_type.name}: lock_limit must be from 1 to {MAX_LOCK_LIMIT:,}")
    if isinstance(job_type.limit_units, int) and job_type.limit_units < 1:
        raise ValueError(f"{job_type.name}: limit_units must be above zero")
    if job_type.priority is not None and job_type.priority not in set(Priority):
        raise ValueError(f"{job_type.name}: priority must be from 0 to 3")
    if job_type.retention is not None and job_type.retention <= timedelta(0):
        raise ValueError(f"{job_type.name}: retention must be above zero")
    unique_for = job_type.unique_for
    if isinstance(unique_for, timedelta):
        unique_for = unique_for.total_seconds()
    if unique_for is not None and not 0 < unique_for <= LONGEST_WAIT_SECONDS:
        raise ValueError(
            f"{job_type.name}: unique_for must be above 0 and at most {LONGEST_WAIT_SECONDS:,} seconds"
        )


def _check_keys(job_type: JobType) -> None:
    if job_type.unique_for is not None and job_type.once_only:
        raise ValueError(f"{job_type.name}: once_only keeps the key for ever: leave out unique_for")
    if job_type.lock_counted_by not in (CountedBy.FIRM, CountedBy.ALL_FIRMS):
        raise ValueError(f"{job_type.name}: lock_counted_by must be firm or all_firms")


def _check_signature(job_type: JobType) -> None:
    try:
        signature = inspect.signature(job_type.handler)
    except ValueError:
        # Some functions that are written in C have none.
        return
    fault = "in this order" if list(signature.parameters)[:2] == ["ctx", "payload"] else ""
    try:
        signature.bind("payload", "ctx")
    except TypeError as error:
        fault = str(error)
    if fault:
        raise TypeError(
            f"{job_type.name}: {qualified_name(job_type.handler)}{signature} must take (payload, ctx):"
            f" {fault}"
        )


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
        told = "; ".join(map(str, schema_faults(error)))
        raise ValueError(f"{what}: {told}") from None


def qualified_name(handler: Handler) -> str:
    """Return the module and name of the function that was decorated."""
    handler = inspect.unwrap(handler)
    return f"{handler.__module__}.{getattr(handler, '__qualname__', handler)}"
