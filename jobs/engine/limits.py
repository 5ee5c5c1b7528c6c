"""Sets and lifts what holds work back: pauses and rate limits.

Caps and inactive firms are plain columns of the firm. Nothing here touches a job, save those let
through under another limit: the claim asks for limits each time, and parking and admission follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.demotion import demote_type
from jobs.engine.dialects import Column
from jobs.engine.lookup import in_sight
from jobs.engine.transactions import fetch, in_transaction, run
from jobs.errors import ReasonMissing, UnknownJob, WrongState
from jobs.models import Pause, RateLimit
from tenants.audit import Actor, record_operation
from tenants.errors import TenantMismatch
from tenants.models import Firm
from tenants.scope import current_scope


@dataclass(frozen=True)
class Holds:
    """For whom a limit holds; `firm_id` None means every firm."""

    firm_id: int | None

    @property
    def everywhere(self) -> bool:
        """Whether it holds for every firm."""
        return self.firm_id is None

    def owner(self) -> int:
        """Return the firm that owns the row.

        Raises:
            TenantMismatch: out of the scope in force.
        """
        scope = current_scope()
        if self.firm_id is None:
            if scope is not None and scope.firm_ids is not None:
                raise TenantMismatch("a limit for every firm takes every firm in scope")
            return Firm.objects.system().pk
        if scope is not None and not scope.allows(self.firm_id):
            raise TenantMismatch(f"firm {self.firm_id} is not in scope")
        return self.firm_id


def pause(
    holds: Holds, category: str, job_type: str, *, reason: str, until: datetime | None, by: Actor
) -> Pause:
    """Store the pause, in place of one for the same jobs that is over.

    Raises:
        ReasonMissing: no reason given.
        WrongState: one stands for the same jobs.
        TenantMismatch: out of the scope in force.
    """
    if not reason.strip():
        raise ReasonMissing
    values = [category, job_type, reason, by.name]
    return in_transaction(lambda: _pause(holds, values, until, by), savepoint=True)


def _pause(holds: Holds, values: list[str], until: datetime | None, by: Actor) -> Pause:
    dialect = dialects.current()
    firm_id = holds.owner()
    now = dialect.now_sql()
    stored = fetch(
        f"""
        INSERT INTO jobs_pause
            (id, firm_id, everywhere, category, job_type, reason, paused_by, until, created_at)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, {now})
        ON CONFLICT (firm_id, everywhere, category, job_type) DO UPDATE
        SET reason = excluded.reason, paused_by = excluded.paused_by, until = excluded.until,
            created_at = excluded.created_at
        WHERE jobs_pause.until <= {now}
        RETURNING id
        """,
        [
            dialect.value(Column.UUID, uuid7()),
            firm_id,
            holds.everywhere,
            *values,
            dialect.value(Column.TIME, until),
        ],
    )
    if not stored:
        raise WrongState("the same is paused already: resume it first")
    pause_id = dialect.read_uuid(stored[0][0])
    row: Pause = Pause.objects.unscoped("the pause just set").get(pk=pause_id)
    record_operation(
        by,
        "pause.set",
        firm_id=firm_id,
        target=("pause", row.pk),
        reason=row.reason,
        after={**_meaning(row), "until": None if until is None else until.isoformat()},
    )
    return row


def resume(pause_id: UUID, *, reason: str, by: Actor) -> None:
    """Lift the pause.

    Raises:
        UnknownJob: no such pause in sight.
    """
    in_transaction(lambda: _resume(pause_id, reason, by), savepoint=True)


def _resume(pause_id: UUID, reason: str, by: Actor) -> None:
    row = in_sight(Pause, pause_id)
    dialect = dialects.current()
    run("DELETE FROM jobs_pause WHERE id = %s", [dialect.value(Column.UUID, row.pk)])
    record_operation(
        by,
        "pause.lift",
        firm_id=row.firm_id,
        target=("pause", row.pk),
        reason=reason,
        before={**_meaning(row), "reason": row.reason},
    )


def _meaning(row: Pause) -> dict[str, Any]:
    return {"everywhere": row.everywhere, "category": row.category, "job_type": row.job_type}


def set_rate_limit(
    holds: Holds, job_type: str, amount: int, per_seconds: float, burst: int, *, by: Actor
) -> RateLimit:
    """Store the limit; one for the same type and firm is replaced.

    Raises:
        TenantMismatch: out of the scope in force.
    """
    values = [job_type, amount, per_seconds, burst]
    return in_transaction(lambda: _set_rate_limit(holds, values, by), savepoint=True)


def _set_rate_limit(holds: Holds, values: list[Any], by: Actor) -> RateLimit:
    dialect = dialects.current()
    firm_id = holds.owner()
    before = _find_rate_limit(holds, firm_id, values[0])
    ((limit_id,),) = fetch(
        f"""
        INSERT INTO jobs_ratelimit
            (id, firm_id, everywhere, job_type, amount, per_seconds, burst, created_at)
        VALUES (%s, %s, %s, %s, %s, %s, %s, {dialect.now_sql()})
        ON CONFLICT (firm_id, everywhere, job_type) DO UPDATE
        SET amount = excluded.amount, per_seconds = excluded.per_seconds, burst = excluded.burst
        RETURNING id
        """,
        [dialect.value(Column.UUID, uuid7()), firm_id, holds.everywhere, *values],
    )
    rows = RateLimit.objects.unscoped("the limit just set")
    row: RateLimit = rows.get(pk=dialect.read_uuid(limit_id))
    demote_type(holds.firm_id, row.job_type)
    record_operation(
        by,
        "rate_limit.set",
        firm_id=firm_id,
        target=("rate_limit", row.pk),
        before={} if before is None else _rate(before),
        after=_rate(row),
    )
    return row


def clear_rate_limit(holds: Holds, job_type: str, *, reason: str, by: Actor) -> None:
    """Lift the limit.

    Raises:
        UnknownJob: there is none for this type and firm.
        TenantMismatch: out of the scope in force.
    """
    in_transaction(lambda: _clear_rate_limit(holds, job_type, reason, by), savepoint=True)


def _clear_rate_limit(holds: Holds, job_type: str, reason: str, by: Actor) -> None:
    firm_id = holds.owner()
    row = _find_rate_limit(holds, firm_id, job_type)
    if row is None:
        raise UnknownJob(f"no rate limit for {job_type}")
    dialect = dialects.current()
    run("DELETE FROM jobs_ratelimit WHERE id = %s", [dialect.value(Column.UUID, row.pk)])
    record_operation(
        by,
        "rate_limit.clear",
        firm_id=firm_id,
        target=("rate_limit", row.pk),
        reason=reason,
        before=_rate(row),
    )


def _find_rate_limit(holds: Holds, firm_id: int, job_type: str) -> RateLimit | None:
    rows = RateLimit.objects.unscoped("the caller's firm was checked").select_for_update()
    found: RateLimit | None = rows.filter(
        firm_id=firm_id, everywhere=holds.everywhere, job_type=job_type
    ).first()
    return found


def _rate(row: RateLimit) -> dict[str, Any]:
    return {
        "everywhere": row.everywhere,
        "job_type": row.job_type,
        "amount": row.amount,
        "per_seconds": row.per_seconds,
        "burst": row.burst,
    }
