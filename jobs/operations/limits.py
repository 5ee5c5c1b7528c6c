"""How operators hold work back: pauses and rate limits, for one firm or everywhere.

Every act is written to the audit log; `by` is as in `jobs.operations.jobs`. `firm` None means every firm,
which takes all of them in scope. A limit holds for every job claimed from then on; what runs goes
on. A firm's cap on running jobs is `Firm.running_cap`, and `Firm.active` False parks all it has.
"""

from __future__ import annotations

import difflib
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from jobs import registry
from jobs.engine import limits
from jobs.engine.database_time import database_now
from jobs.engine.limits import Holds
from jobs.errors import Fault, LimitInvalid, UnknownJob
from jobs.models import Pause, RateLimit
from jobs.states import Category
from tenants.audit import Actor, as_actor
from tenants.models import Firm

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    By = Actor | AbstractBaseUser | None

# Beyond it a database's integer ends.
MOST = 2**31 - 1
# Below it a rate is more than a database's arithmetic can take, and admission stops for everybody.
LEAST_SECONDS = 0.001


def pause(
    *,
    firm: Firm | int | None = None,
    category: str | None = None,
    job_type: str | None = None,
    reason: str,
    until: datetime | None = None,
    by: By = None,
) -> Pause:
    """Let nothing of a firm, a category, a type start; the three narrow one another down.

    Jobs that wait for it use no attempt; it ends at `until` (aware), or by `resume`.

    Raises:
        ReasonMissing: no reason given.
        LimitInvalid: an argument is refused; `errors` lists field, code, message.
        WrongState: the same is paused already.
        TenantMismatch: the firm, or that of every firm, is out of scope.
    """
    faults = [
        *([] if category is None else _category_faults(category)),
        *([] if job_type is None else _type_faults(job_type)),
    ]
    if until is not None and until.tzinfo is None:
        faults.append(Fault("until", "naive_time", "must carry a time zone"))
    elif until is not None and until <= database_now():
        faults.append(Fault("until", "past", "must lie ahead"))
    if faults:
        raise LimitInvalid(faults)
    return limits.pause(
        _holds(firm), category or "", job_type or "", reason=reason, until=until, by=as_actor(by)
    )


def resume(pause: Pause | UUID | str, *, reason: str = "", by: By = None) -> None:
    """Lift a pause; what waited for it runs in its turn.

    Raises:
        UnknownJob: no such pause in sight.
    """
    limits.resume(_id(pause), reason=reason, by=as_actor(by))


def set_rate_limit(
    job_type: str,
    amount: int,
    per_seconds: float,
    *,
    burst: int | None = None,
    firm: Firm | int | None = None,
    by: By = None,
) -> RateLimit:
    """Let at most `amount` jobs of a type start in `per_seconds`, counted for each firm.

    After a quiet time up to `burst` (`amount` unless given) start at once: never more than
    `burst` and what the time adds, in any stretch of time. A limit for the same firm and type is
    replaced; a firm's own stands before the one for everywhere.

    Raises:
        LimitInvalid: an argument is refused; `errors` lists field, code, message.
        TenantMismatch: the firm, or that of every firm, is out of scope.
    """
    faults = _type_faults(job_type)
    for name, number in (("amount", amount), ("burst", burst)):
        if number is not None and not 1 <= number <= MOST:
            faults.append(Fault(name, "out_of_range", f"must be from 1 to {MOST:,}"))
    if not LEAST_SECONDS <= per_seconds <= MOST:
        faults.append(
            Fault("per_seconds", "out_of_range", f"must be from {LEAST_SECONDS} to {MOST:,}")
        )
    if faults:
        raise LimitInvalid(faults)
    return limits.set_rate_limit(
        _holds(firm),
        job_type,
        amount,
        float(per_seconds),
        amount if burst is None else burst,
        by=as_actor(by),
    )


def clear_rate_limit(
    job_type: str, *, firm: Firm | int | None = None, reason: str = "", by: By = None
) -> None:
    """Lift the limit that was set for just this firm, or for everywhere.

    Raises:
        UnknownJob: there is none.
        TenantMismatch: the firm, or that of every firm, is out of scope.
    """
    limits.clear_rate_limit(_holds(firm), job_type, reason=reason, by=as_actor(by))


def _holds(firm: Firm | int | None) -> Holds:
    return Holds(firm if firm is None or isinstance(firm, int) else firm.pk)


def _category_faults(category: str) -> list[Fault]:
    return _unknown("category", category, [word.value for word in Category])


def _type_faults(job_type: str) -> list[Fault]:
    return _unknown("job_type", job_type, [declared.name for declared in registry.all_types()])


def _unknown(field: str, word: str, known: list[str]) -> list[Fault]:
    if word in known:
        return []
    close = difflib.get_close_matches(word, known, n=2)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return [Fault(field, "unknown", f"there is no {word!r}{hint}")]


def _id(pause: Pause | UUID | str) -> UUID:
    try:
        return pause if isinstance(pause, UUID) else UUID(str(getattr(pause, "pk", pause)))
    except ValueError as error:
        raise UnknownJob(f"{str(pause)[:64]!r} is not an id") from error
