"""Makes every check there is for the database at hand, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import DatabaseError, connection

from jobs.doctor import (
    claim_plan,
    clocks,
    connections,
    counters,
    indexes,
    pooling,
    snapshots,
    sqlite_file,
    vacuum,
    wall,
)
from jobs.doctor.finding import Finding, Severity
from jobs.doctor.safely import lacks_right, looking, own_role, timed_out

Look = Callable[[], Iterable[Finding]]

CHECKS: dict[str, dict[str, Look]] = {
    "postgresql": {
        "snapshots": snapshots.look,
        "vacuum": vacuum.look,
        "claim_plan": claim_plan.look,
        "pooling": pooling.look,
        "connections": connections.look,
        "wall": wall.look,
        "indexes": indexes.look,
        "clocks": clocks.look,
        "counters": counters.look,
    },
    "sqlite": {
        "file": sqlite_file.look,
        "soundness": sqlite_file.soundness,
        "claim_plan": claim_plan.look,
        "indexes": indexes.look,
    },
}
NO_LIMITS: Mapping[str, float] = {}


@dataclass(frozen=True)
class Examination:
    """What was found, the worst first."""

    at: datetime
    database: str
    findings: list[Finding]

    def of(self, severity: Severity) -> list[Finding]:
        """Return the findings of one severity."""
        return [finding for finding in self.findings if finding.severity is severity]


def examine(limits: Mapping[str, float] = NO_LIMITS) -> Examination:
    """Look at everything. A check that fails is a finding too; none can hold the caller up long.

    `limits` are seconds for some checks, by name; the others have TIME_LIMIT_SECONDS.
    """
    found = [
        finding
        for name, look in CHECKS[connection.vendor].items()
        for finding in _looked(name, look, limits.get(name))
    ]
    worst_first = sorted(found, key=lambda finding: list(Severity).index(finding.severity))
    return Examination(datetime.now(UTC), connection.vendor, worst_first)


def _looked(name: str, look: Look, limit_seconds: float | None) -> list[Finding]:
    try:
        with looking(limit_seconds):
            return list(look())
    except DatabaseError as error:
        return [_not_looked(name, error)]


def _not_looked(name: str, error: DatabaseError) -> Finding:
    subject = name.replace("_", " ")
    why = "What nobody can look at may be well or ill."
    if lacks_right(error):
        what = f"{subject}: this database role may not look."
        mend = f"GRANT pg_monitor TO {own_role()};  -- as a superuser"
        return Finding(f"{name}.unseen", Severity.NOTICE, what, why, mend)
    if timed_out(error):
        what = f"{subject}: the database did not answer in time."
    else:
        what = f"{subject}: the database answered with {type(error).__name__}."
    return Finding(f"{name}.unseen", Severity.PROBLEM, what, why)
