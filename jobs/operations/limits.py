"""Operations on limits: pauses and rate limits, for one firm or everywhere.

`firm` None means every firm, which requires all of them in scope. A limit applies to every job
claimed from then on; running jobs continue. A firm's cap on running jobs is not set here but in
`Firm.running_cap`, and `Firm.active` False holds back all its jobs.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from uuid_utils.compat import uuid7

from interfaces.redaction import hide_secrets
from jobs.engine import dialects
from jobs.engine.clock import database_now
from jobs.engine.demotion import demote_rated
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch, run
from jobs.errors import LimitInvalid, UnknownJob, WrongState
from jobs.models import Pause, RateLimit
from jobs.operations.limit_faults import (
    cleared_faults,
    counting_faults,
    pause_faults,
    rate_faults,
)
from jobs.operations.operation import (
    By,
    audit,
    get_for_update,
    operation,
    owner_id,
    require_reason,
)
from jobs.states import CountedBy
from tenants.audit import as_actor
from tenants.models import Firm

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
    """Hold back the jobs that match every given argument: firm, category, type, limit key.

    Jobs that wait use no attempt. The pause ends at `until` (aware), or by `resume`.

    Raises:
        ReasonMissing: no reason given.
        LimitInvalid: an argument is refused; `errors` lists field, code, message.
        ArgumentsInvalid: there is no such firm.
        WrongState: there is such a pause already.
        TenantMismatch: the firm is out of scope; without a firm, not every firm is in scope.
    """
    if faults := pause_faults(category, job_type, limit_key, until):
        raise LimitInvalid(faults)
    require_reason(reason)
    reason = hide_secrets(reason)
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
            # In UTC, because PostgreSQL knows no offsets of 16 hours or more, which Python allows.
            dialect.value(Column.TIME, until and until.astimezone(UTC)),
        ],
    )
    if not stored:
        raise WrongState("these jobs are paused already: resume that pause first")
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
    job_type: str | None,
    amount: int,
    per_seconds: float,
    *,
    burst: int | None = None,
    firm: Firm | int | None = None,
    limit_key: str | None = None,
    counted_by: CountedBy | str = CountedBy.FIRM,
    by: By = None,
) -> RateLimit:
    """Let at most `amount` units start in `per_seconds`; a job is one unit unless it declares more.

    After a quiet time up to `burst` units (`amount` unless given) start at once. In no period start
    more than `burst` plus what the rate gives in that period.

    `counted_by` says which jobs count together: the type's jobs in each firm (FIRM); in each firm
    those of each limit key, or of `limit_key` alone, of every type if `job_type` is None (KEY); or
    the type's jobs in all firms (ALL_FIRMS). A limit with the same arguments is replaced. Of limits
    with the same `counted_by`, a firm's own takes precedence over one for everywhere, then one for
    a `limit_key` over one for each key.

    Raises:
        LimitInvalid: an argument is refused; `errors` lists field, code, message.
        TenantMismatch: the firm is out of scope; without a firm, not every firm is in scope.
    """
    faults = counting_faults(job_type, limit_key, counted_by, for_one_firm=firm is not None)
    if faults := [*faults, *rate_faults(amount, per_seconds, burst)]:
        raise LimitInvalid(faults)
    firm_id = owner_id(firm)
    counting = _counting(job_type, limit_key, counted_by)
    before = _find_rate_limit(firm, firm_id, counting)
    row = RateLimit(
        firm_id=firm_id,
        everywhere=firm is None,
        amount=amount,
        per_seconds=float(per_seconds),
        burst=amount if burst is None else burst,
        created_at=database_now(),
        **counting,
    )
    _upsert(row, [*counting])
    demote_rated(None if firm is None else firm_id, **counting)
    row = _find_rate_limit(firm, firm_id, counting) or row
    was = None if before is None else _columns(before, *_RATE)
    audit("rate_limit.set", row, by, before=was, after=_columns(row, *_RATE))
    return row


def _upsert(row: RateLimit, counting: list[str]) -> None:
    RateLimit.objects.unscoped("the firm is in scope").bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["firm", "everywhere", *counting],
        update_fields=["amount", "per_seconds", "burst"],
    )


@operation
def clear_rate_limit(
    job_type: str | None,
    *,
    firm: Firm | int | None = None,
    limit_key: str | None = None,
    counted_by: CountedBy | str = CountedBy.FIRM,
    reason: str = "",
    by: By = None,
) -> None:
    """Remove the rate limit that was set with exactly these arguments.

    Raises:
        LimitInvalid: an argument is refused; `errors` lists field, code, message.
        UnknownJob: there is no such limit.
        TenantMismatch: the firm is out of scope; without a firm, not every firm is in scope.
    """
    if faults := cleared_faults(job_type, limit_key, counted_by):
        raise LimitInvalid(faults)
    row = _find_rate_limit(firm, owner_id(firm), _counting(job_type, limit_key, counted_by))
    if row is None:
        raise UnknownJob(f"{job_type or limit_key} has no such rate limit")
    remove_rate_limit(row, reason=reason, by=by)


@operation
def remove_rate_limit(limit: RateLimit | UUID | str, *, reason: str = "", by: By = None) -> None:
    """Remove this rate limit.

    Raises:
        UnknownJob: no such limit in scope.
    """
    row = get_for_update(RateLimit, limit)
    _delete(row)
    audit("rate_limit.clear", row, by, reason, before=_columns(row, *_RATE))


# The columns that the audit log keeps.
_PAUSED = ("everywhere", "category", "job_type", "limit_key")
_RATE = (
    *("everywhere", "counted_by", "job_type", "limit_key"),
    *("amount", "per_seconds", "burst"),
)


def _columns(row: Pause | RateLimit, *names: str) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def _delete(row: Pause | RateLimit) -> None:
    pk = dialects.current().value(Column.UUID, row.pk)
    run(f"DELETE FROM {row._meta.db_table} WHERE id = %s", [pk])


def _counting(
    job_type: str | None, limit_key: str | None, counted_by: CountedBy | str
) -> dict[str, Any]:
    """Return the columns that say what a rate limit counts together."""
    return {
        "counted_by": CountedBy(counted_by),
        "job_type": job_type or "",
        "limit_key": limit_key or "",
    }


def _find_rate_limit(
    firm: Firm | int | None, firm_id: int, counting: dict[str, Any]
) -> RateLimit | None:
    rows = RateLimit.objects.unscoped("the firm is in scope").select_for_update(no_key=True)
    found: RateLimit | None = rows.filter(
        firm_id=firm_id, everywhere=firm is None, **counting
    ).first()
    return found
