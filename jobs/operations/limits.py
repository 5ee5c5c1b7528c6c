"""Operations on limits: pauses and rate limits, for one firm or everywhere.

`firm` None means every firm, which requires all of them in scope. A limit applies to every job
claimed from then on; running jobs continue. A firm's cap on running jobs is `Firm.running_cap`, and
`Firm.active` False holds back all its jobs.
"""

from __future__ import annotations

import difflib
from datetime import datetime
from typing import Any
from uuid import UUID

from uuid_utils.compat import uuid7

from jobs import registry
from jobs.engine import dialects
from jobs.engine.clock import database_now
from jobs.engine.demotion import demote_type
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch, run
from jobs.errors import Fault, LimitInvalid, UnknownJob, WrongState
from jobs.models import Pause, RateLimit
from jobs.models.limits import MAX_KEY_LENGTH
from jobs.operations.operation import By, audit, get_for_update, operation, require_reason
from jobs.states import Category
from tenants.audit import as_actor
from tenants.errors import TenantMismatch
from tenants.models import Firm
from tenants.scope import current_scope

# The largest value of a database's integer.
MOST = 2**31 - 1
# A smaller value overflows the database's rate arithmetic and stops admission for everybody.
LEAST_SECONDS = 0.001

INSERT_PAUSE_SQL = """
INSERT INTO jobs_pause
    (id, firm_id, everywhere, category, job_type, limit_key, reason, paused_by, until, created_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, {now})
ON CONFLICT (firm_id, everywhere, category, job_type, limit_key) DO UPDATE
SET reason = excluded.reason, paused_by = excluded.paused_by, until = excluded.until,
    created_at = excluded.created_at
WHERE jobs_pause.until <= {now}
RETURNING id
"""


@operation
def pause(
    *,
    firm: Firm | int | None = None,
    category: str | None = None,
    job_type: str | None = None,
    limit_key: str | None = None,
    reason: str,
    until: datetime | None = None,
    by: By = None,
) -> Pause:
    """Let no job start that matches firm, category, type and limit key, as far as they are given.

    Jobs that wait for it use no attempt; it ends at `until` (aware), or by `resume`.

    Raises:
        ReasonMissing: no reason given.
        LimitInvalid: an argument is refused; `errors` lists field, code, message.
        WrongState: the same is paused already.
        TenantMismatch: the firm, or that of every firm, is out of scope.
    """
    _check_pause(category, job_type, limit_key, until)
    require_reason(reason)
    firm_id = owner_id(firm)
    dialect = dialects.current()
    stored = fetch(
        INSERT_PAUSE_SQL.format(now=dialect.now_sql()),
        [
            dialect.value(Column.UUID, uuid7()),
            firm_id,
            firm is None,
            category or "",
            job_type or "",
            limit_key or "",
            reason,
            as_actor(by).name,
            dialect.value(Column.TIME, until),
        ],
    )
    if not stored:
        raise WrongState("the same is paused already: resume it first")
    rows = Pause.objects.unscoped("the pause just stored")
    row: Pause = rows.get(pk=dialect.read_uuid(stored[0][0]))
    after = {**_columns(row, *_PAUSED), "until": None if until is None else until.isoformat()}
    audit("pause.set", row, by, reason, after=after)
    return row


@operation
def resume(pause: Pause | UUID | str, *, reason: str = "", by: By = None) -> None:
    """Lift a pause; the jobs that waited for it run in their order.

    Raises:
        UnknownJob: no such pause in scope.
    """
    row = get_for_update(Pause, pause)
    _delete(row)
    audit("pause.lift", row, by, reason, before=_columns(row, *_PAUSED, "reason"))


@operation
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
    replaced; a firm's own takes precedence over the one for everywhere.

    Raises:
        LimitInvalid: an argument is refused; `errors` lists field, code, message.
        TenantMismatch: the firm, or that of every firm, is out of scope.
    """
    _check_rate(job_type, amount, per_seconds, burst)
    firm_id = owner_id(firm)
    before = _find_rate_limit(firm, firm_id, job_type)
    row = RateLimit(
        firm_id=firm_id,
        everywhere=firm is None,
        job_type=job_type,
        amount=amount,
        per_seconds=float(per_seconds),
        burst=amount if burst is None else burst,
        created_at=database_now(),
    )
    RateLimit.objects.unscoped("the firm is in scope").bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["firm", "everywhere", "job_type"],
        update_fields=["amount", "per_seconds", "burst"],
    )
    demote_type(None if firm is None else firm_id, job_type)
    row = _find_rate_limit(firm, firm_id, job_type) or row
    audit(
        "rate_limit.set",
        row,
        by,
        before=None if before is None else _columns(before, *_RATE),
        after=_columns(row, *_RATE),
    )
    return row


@operation
def clear_rate_limit(
    job_type: str, *, firm: Firm | int | None = None, reason: str = "", by: By = None
) -> None:
    """Lift the limit that was set for just this firm, or for everywhere.

    Raises:
        UnknownJob: there is none.
        TenantMismatch: the firm, or that of every firm, is out of scope.
    """
    row = _find_rate_limit(firm, owner_id(firm), job_type)
    if row is None:
        raise UnknownJob(f"no rate limit for {job_type}")
    remove_rate_limit(row, reason=reason, by=by)


@operation
def remove_rate_limit(limit: RateLimit | UUID | str, *, reason: str = "", by: By = None) -> None:
    """Lift this limit.

    Raises:
        UnknownJob: no such limit in scope.
    """
    row = get_for_update(RateLimit, limit)
    _delete(row)
    audit("rate_limit.clear", row, by, reason, before=_columns(row, *_RATE))


def owner_id(firm: Firm | int | None) -> int:
    """Return the id of the firm that owns a limit's row: for every firm, the system firm.

    Raises:
        TenantMismatch: the firm, or that of every firm, is out of scope.
    """
    scope = current_scope()
    if firm is None:
        if scope is not None and scope.firm_ids is not None:
            raise TenantMismatch("a limit for every firm takes every firm in scope")
        return Firm.objects.system().pk
    firm_id = firm if isinstance(firm, int) else firm.pk
    if scope is not None and not scope.allows(firm_id):
        raise TenantMismatch(f"firm {firm_id} is not in scope")
    return firm_id


# The columns that the audit log keeps.
_PAUSED = ("everywhere", "category", "job_type", "limit_key")
_RATE = ("everywhere", "job_type", "amount", "per_seconds", "burst")


def _columns(row: Pause | RateLimit, *names: str) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def _delete(row: Pause | RateLimit) -> None:
    pk = dialects.current().value(Column.UUID, row.pk)
    run(f"DELETE FROM {row._meta.db_table} WHERE id = %s", [pk])


def _find_rate_limit(firm: Firm | int | None, firm_id: int, job_type: str) -> RateLimit | None:
    rows = RateLimit.objects.unscoped("the firm is in scope").select_for_update()
    found: RateLimit | None = rows.filter(
        firm_id=firm_id, everywhere=firm is None, job_type=job_type
    ).first()
    return found


def _check_pause(
    category: str | None, job_type: str | None, limit_key: str | None, until: datetime | None
) -> None:
    faults = []
    if category is not None:
        faults += _unknown("category", category, [word.value for word in Category])
    if job_type is not None:
        faults += _type_faults(job_type)
    faults += key_faults(limit_key or "")
    if until is not None and until.tzinfo is None:
        faults.append(Fault("until", "naive_time", "must carry a time zone"))
    elif until is not None and until <= database_now():
        faults.append(Fault("until", "past", "must lie ahead"))
    if faults:
        raise LimitInvalid(faults)


def _check_rate(job_type: str, amount: int, per_seconds: float, burst: int | None) -> None:
    faults = _type_faults(job_type)
    for name, number in (("amount", amount), ("burst", burst)):
        if number is not None and not 1 <= number <= MOST:
            faults.append(Fault(name, "out_of_range", f"must be from 1 to {MOST:,}"))
    if not LEAST_SECONDS <= per_seconds <= MOST:
        message = f"must be from {LEAST_SECONDS} to {MOST:,}"
        faults.append(Fault("per_seconds", "out_of_range", message))
    if faults:
        raise LimitInvalid(faults)


def _type_faults(job_type: str) -> list[Fault]:
    return _unknown("job_type", job_type, [declared.name for declared in registry.all_types()])


def key_faults(limit_key: str) -> list[Fault]:
    """Return what is wrong with a limit key; an empty one stands for none."""
    if len(limit_key) <= MAX_KEY_LENGTH and "\x00" not in limit_key:
        return []
    message = f"must have at most {MAX_KEY_LENGTH} characters and no NUL"
    return [Fault("limit_key", "wrong_length", message)]


def _unknown(field: str, word: str, known: list[str]) -> list[Fault]:
    if word in known:
        return []
    close = difflib.get_close_matches(word, known, n=2)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return [Fault(field, "unknown", f"there is no {word!r}{hint}")]
