"""What is wrong with the arguments of the operations on limits."""

from __future__ import annotations

import difflib
from datetime import datetime

from interfaces.plain_json import is_text
from interfaces.redaction import quotable
from jobs import registry
from jobs.engine.clock import database_now
from jobs.engine.job_arguments import moment_faults, number_faults, seconds_faults
from jobs.errors import Fault
from jobs.models.limits import MAX_KEY_LENGTH
from jobs.payload_validator import text_faults
from jobs.registry import JobType
from jobs.states import Category, CountedBy

# The largest value of a database's integer.
MOST = 2**31 - 1
# A smaller value overflows the database's rate arithmetic and stops admission for everybody.
LEAST_SECONDS = 0.001


def pause_faults(
    category: str | None, job_type: str | None, limit_key: str | None, until: datetime | None
) -> list[Fault]:
    """Return what is wrong with a pause."""
    faults = []
    if category is not None:
        faults += _unknown("category", category, [word.value for word in Category])
    if job_type is not None:
        faults += _type_faults(job_type)
    if not faults and category is not None and job_type is not None:
        faults += _category_faults(category, registry.get(job_type))
    faults += key_faults(limit_key)
    if until is not None:
        faults += moment_faults("until", until) or _past_faults(until)
    return faults


def _category_faults(category: str, declared: JobType) -> list[Fault]:
    """Return a fault if the category is not the type's: the pause would hold back no job."""
    own = declared.category.value
    if category == own:
        return []
    message = f"{declared.name} belongs to the category {own}: give that one, or none"
    return [Fault("category", "conflict", message)]


def _past_faults(until: datetime) -> list[Fault]:
    return [] if until > database_now() else [Fault("until", "past", "must be in the future")]


def counting_faults(
    job_type: str | None,
    limit_key: str | None,
    counted_by: CountedBy | str,
    *,
    for_one_firm: bool,
) -> list[Fault]:
    """Return what is wrong with the arguments that say which jobs a rate limit counts together."""
    faults = _unknown("counted_by", counted_by, [word.value for word in CountedBy])
    if job_type:
        faults += _type_faults(job_type)
    elif counted_by != CountedBy.KEY:
        faults.append(
            Fault("job_type", "missing", "is required, unless the limit is counted by key")
        )
    faults += key_faults(limit_key)
    if limit_key and counted_by != CountedBy.KEY:
        faults.append(Fault("limit_key", "conflict", "needs a limit that is counted by key"))
    if counted_by == CountedBy.ALL_FIRMS and for_one_firm:
        faults.append(
            Fault("counted_by", "conflict", "a limit of all firms cannot be set for one firm")
        )
    return faults


def cleared_faults(
    job_type: str | None, limit_key: str | None, counted_by: CountedBy | str
) -> list[Fault]:
    """Return what is wrong with the arguments of a removal; the type may no longer be declared."""
    faults = _unknown("counted_by", counted_by, [word.value for word in CountedBy])
    if job_type is not None:
        faults += _text_faults("job_type", job_type)
    return faults + key_faults(limit_key)


def rate_faults(amount: int, per_seconds: float, burst: int | None) -> list[Fault]:
    """Return what is wrong with the numbers of a rate limit."""
    faults = number_faults("amount", amount, 1, MOST)
    if burst is not None:
        faults += number_faults("burst", burst, 1, MOST)
    return faults + seconds_faults("per_seconds", per_seconds, LEAST_SECONDS, MOST)


def _type_faults(job_type: str) -> list[Fault]:
    return registry.name_faults(job_type) or _unknown(
        "job_type", job_type, [declared.name for declared in registry.all_types()]
    )


def key_faults(limit_key: object) -> list[Fault]:
    """Return what is wrong with a limit key; an empty one stands for none."""
    if limit_key is None:
        return []
    if not is_text(limit_key):
        return [Fault("limit_key", "wrong_type", "must be a string")]
    if len(limit_key) <= MAX_KEY_LENGTH and "\x00" not in limit_key:
        return list(text_faults("limit_key", limit_key))
    message = f"must have at most {MAX_KEY_LENGTH} characters and no NUL"
    return [Fault("limit_key", "wrong_length", message)]


def _text_faults(field: str, word: object) -> list[Fault]:
    if is_text(word):
        return list(text_faults(field, word))
    return [Fault(field, "wrong_type", "must be a string")]


def _unknown(field: str, word: str, known: list[str]) -> list[Fault]:
    if faults := _text_faults(field, word):
        return faults
    if word in known:
        return []
    close = difflib.get_close_matches(word, known, n=2)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return [Fault(field, "unknown", f"{quotable(word)!r} is unknown{hint}")]
