"""How many connections PostgreSQL allows, how many there are, and how many the workers need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Count, Sum

from jobs.doctor.finding import Finding, Severity
from jobs.doctor.safely import fetch, own_role
from jobs.engine.database_time import database_now
from jobs.models import Worker

# Besides one for each handler: claiming, settling, heartbeat, maintenance, and LISTEN.
CONNECTIONS_BESIDE_HANDLERS = 5
NEARLY_FULL = 0.8

WHY = (
    "A worker that gets no connection backs off, and its jobs wait; one that gets none for its "
    "heartbeat loses its lease."
)

# Missing settings (reserved_connections came with PostgreSQL 16) count as none.
BUDGET = """
SELECT current_setting('max_connections')::integer,
       current_setting('superuser_reserved_connections')::integer
           + coalesce(current_setting('reserved_connections', true)::integer, 0),
       (SELECT count(*) FROM pg_stat_activity WHERE usesysid IS NOT NULL
            AND coalesce(backend_type, 'client backend') IN ('client backend', 'walsender')),
       (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),
       (SELECT count(*) FROM pg_stat_activity WHERE usename = current_user),
       (SELECT datconnlimit FROM pg_database WHERE datname = current_database())
"""


@dataclass(frozen=True)
class Budget:
    """What the server allows everybody together, and this role and database."""

    most: int
    reserved: int
    used: int
    most_of_role: int
    used_by_role: int
    most_of_database: int

    @property
    def for_us(self) -> int:
        """How many this role may open at most; a limit of -1 is none."""
        limits = (self.most - self.reserved, self.most_of_role, self.most_of_database)
        return min(limit for limit in limits if limit >= 0)


def look() -> Iterator[Finding]:
    """Compare what is allowed with what is used and needed."""
    (row,) = fetch(BUDGET)
    budget = Budget(*row)
    yield _used(budget)
    yield _needed(budget)


def _used(budget: Budget) -> Finding:
    room = budget.most - budget.reserved
    what = (
        f"{budget.used} of {room} connections are in use ({budget.most} less {budget.reserved} "
        f"reserved), {budget.used_by_role} of them by this role."
    )
    if budget.used < NEARLY_FULL * room:
        return Finding("connections.used", Severity.OK, what, WHY)
    severity = Severity.PROBLEM if budget.used >= room else Severity.NOTICE
    mend = f"ALTER SYSTEM SET max_connections = {budget.most * 2};  -- holds after a restart"
    return Finding("connections.used", severity, what, WHY, mend)


def _needed(budget: Budget) -> Finding:
    live = Worker.objects.filter(dead_at__isnull=True, lease_expires_at__gt=database_now())
    sums = live.aggregate(workers=Count("pk"), handlers=Sum("concurrency", default=0))
    workers, handlers = sums["workers"], sums["handlers"]
    needed = handlers + workers * CONNECTIONS_BESIDE_HANDLERS
    what = (
        f"{workers} live worker processes with {handlers} handlers may open {needed} connections; "
        f"this role may have {budget.for_us}."
    )
    if needed <= NEARLY_FULL * budget.for_us:
        return Finding("connections.needed", Severity.OK, what, WHY)
    severity = Severity.PROBLEM if needed > budget.for_us else Severity.NOTICE
    mend = (
        "Lower --concurrency or --processes, or put PgBouncer in between; or "
        f"ALTER SYSTEM SET max_connections = {budget.reserved + needed * 2};  -- after a restart"
    )
    if budget.most_of_role >= 0 and budget.most_of_role == budget.for_us:
        mend = f"ALTER ROLE {own_role()} CONNECTION LIMIT -1;"
    return Finding("connections.needed", severity, what, WHY, mend)
