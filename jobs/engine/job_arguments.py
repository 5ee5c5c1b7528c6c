"""Checks arguments: those of a job to enqueue (its user, times, keys), and numbers and times of others."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db.models import Model

from interfaces.correlation import MAX_CORRELATION_ID_LENGTH
from interfaces.moments import YEARS, is_in_range
from interfaces.plain_json import is_text
from jobs.engine.owner import MOST_ID, exists, look_up
from jobs.errors import LONGEST_WAIT_SECONDS, ArgumentsInvalid, Fault, PayloadInvalid
from jobs.models import JobQueue
from jobs.payload_validator import text_faults
from jobs.registry import JobType
from jobs.states import Priority
from tenants.users import is_stored, is_user

if TYPE_CHECKING:
    from jobs.engine.new_job import EnqueueSpec, NewJob
    from tenants.models import Firm

MAX_KEY_LENGTH = 200
MAX_ATTEMPTS = 32_767
MAX_UNITS = 2**31 - 1
NORMAL = Priority.NORMAL.value
PRIORITIES = (min(Priority), max(Priority))
SPAN_RANGE = f"must be above 0 and at most {LONGEST_WAIT_SECONDS:,} seconds"


def user_id(declared: JobType, user: Any) -> Any:
    """Return the key of a user, given as a row or by its id; None for an anonymous visitor.

    Raises:
        PayloadInvalid: it is neither, or no user has the id.
    """
    try:
        key = _key_of_user(user)
    except ValidationError as error:
        fault = Fault("user", "wrong_type", "must be a user, or the id of one")
        raise PayloadInvalid(declared.name, [fault]) from error
    if key is None and not getattr(user, "is_anonymous", False):
        fault = Fault("user", "not_stored", "is not stored yet: save the user first")
        raise PayloadInvalid(declared.name, [fault])
    # An id may be any number.
    if key is not None and not is_stored(user) and not exists("user", key):
        raise PayloadInvalid(declared.name, [Fault("user", "unknown", f"no user has the id {key}")])
    return key


def _key_of_user(user: Any) -> Any:
    """Return the user's key."""
    # The field would convert these to a whole number, which may be another user's id; so may be the
    # id of another model's row.
    if isinstance(user, bool | float | Decimal) or (isinstance(user, Model) and not is_user(user)):
        raise ValidationError("cannot be a user's id")
    try:
        key = JobQueue._meta.get_field("user").to_python(getattr(user, "pk", user))
    except TypeError as error:  # UUIDField raises it for what is neither text nor a number
        raise ValidationError("cannot be a user's id") from error
    # A query with such a key would raise an error.
    beyond = isinstance(key, int) and not -MOST_ID <= key <= MOST_ID
    if beyond or (isinstance(key, str) and any(text_faults("user", key))):
        raise ValidationError("cannot be a user's id")
    return key


def look_up_named_users(specs: Iterable[EnqueueSpec]) -> None:
    """Look up the users that are given by id in one query, so that `user_id` needs none."""
    named = set()
    for spec in specs:
        if spec.user is not None and not is_stored(spec.user):
            # An invalid id is refused later, with the other faults of its job.
            with suppress(ValidationError):
                named.add(_key_of_user(spec.user))
    # The key of a visitor who did not sign in.
    named.discard(None)
    if named:
        look_up("user", named)


def argument_faults(job: NewJob) -> list[Fault]:
    """Return the faults of the arguments that the caller gave beside the payload."""
    faults = []
    if not 1 <= len(job.correlation_id) <= MAX_CORRELATION_ID_LENGTH:
        message = f"must have 1 to {MAX_CORRELATION_ID_LENGTH} characters"
        faults.append(Fault("correlation_id", "wrong_length", message))
    if job.priority is not NORMAL:
        faults += number_faults("priority", job.priority, *PRIORITIES)
    faults += number_faults("max_attempts", job.max_attempts, 1, MAX_ATTEMPTS)
    if job.delay or job.run_at is not None or job.expires_at is not None:
        faults += _time_faults(job)
    if job.unique_for is not None and not 0 < job.unique_for <= LONGEST_WAIT_SECONDS:
        faults.append(Fault("unique_for", "out_of_range", SPAN_RANGE))
    if job.limit_units != 1:
        faults += number_faults("limit_units", job.limit_units, 1, MAX_UNITS)
    if job.lock_key is not None:
        faults += key_faults("lock_key", job.lock_key)
    if job.limit_key is not None:
        faults += key_faults("limit_key", job.limit_key)
    if job.idempotency_key is not None:
        faults += key_faults("idempotency_key", job.idempotency_key)
    return faults


def key_faults(name: str, key: object) -> list[Fault]:
    """Return what is wrong with a lock key, limit key or idempotency key."""
    if not is_text(key):
        return [Fault(name, "wrong_type", "must be a string")]
    if 1 <= len(key) <= MAX_KEY_LENGTH and "\x00" not in key:
        return [] if key.isascii() else list(text_faults(name, key))
    message = f"must have 1 to {MAX_KEY_LENGTH} characters and no NUL"
    return [Fault(name, "wrong_length", message)]


def refuse_other_firm(firm: Firm | int | None, own_id: int) -> None:
    """Refuse `firm` for a child of a job of the firm `own_id`.

    Raises:
        ArgumentsInvalid: it is another one.
    """
    if firm is not None and getattr(firm, "pk", firm) != own_id:
        message = "must be the job's own: for another firm call jobs.queue.enqueue(…, firm=…)"
        raise ArgumentsInvalid([Fault("firm", "not_possible", message)])


def _time_faults(job: NewJob) -> list[Fault]:
    faults = []
    if not 0 <= job.delay <= LONGEST_WAIT_SECONDS:
        message = f"must be from 0 to {LONGEST_WAIT_SECONDS:,} seconds"
        faults.append(Fault("delay", "out_of_range", message))
    if job.run_at is not None and job.delay:
        faults.append(Fault("delay", "conflict", "give either at or delay"))
    for name, moment in (("at", job.run_at), ("expires_at", job.expires_at)):
        if moment is not None:
            faults += moment_faults(name, moment)
    if not faults and job.run_at and job.expires_at and job.run_at >= job.expires_at:
        faults.append(Fault("at", "after_expiry", "the job expires before this time"))
    return faults


def number_faults(name: str, number: object, least: int, most: int) -> list[Fault]:
    """Return what is wrong with a whole number. True and 2.0 are not accepted."""
    if not isinstance(number, int) or isinstance(number, bool):
        return [Fault(name, "wrong_type", "must be a whole number")]
    if not least <= number <= most:
        return [Fault(name, "out_of_range", f"must be from {least:,} to {most:,}")]
    return []


def seconds_faults(name: str, seconds: object, least: float, most: float) -> list[Fault]:
    """Return what is wrong with a number of seconds, whole or not."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return [Fault(name, "wrong_type", "must be a number")]
    # Written so that NaN is refused, too.
    if least <= seconds <= most:
        return []
    return [Fault(name, "out_of_range", f"must be from {least:,} to {most:,} seconds")]


def moment_faults(name: str, moment: object) -> list[Fault]:
    """Return what is wrong with a time. A date is not accepted."""
    if not isinstance(moment, datetime):
        return [Fault(name, "wrong_type", "must be a datetime")]
    # A tzinfo may return no offset; the databases treat such a time as one without a zone.
    if moment.utcoffset() is None:
        return [Fault(name, "naive_time", "must carry a time zone")]
    if not is_in_range(moment):
        return [Fault(name, "out_of_range", f"must lie in {YEARS}")]
    return []
