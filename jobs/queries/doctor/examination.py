"""Runs all checks for the database in use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import DatabaseError, connection

from jobs.queries.doctor import clocks, connections, schema, snapshots, sqlite_file, vacuum
from jobs.queries.doctor.base import (
    Finding,
    Severity,
    lacks_privilege,
    own_role,
    read_only,
    timed_out,
)
from jobs.queries.doctor.claim_plan import check_claim_plan

Check = Callable[[], Iterable[Finding]]

CHECKS: dict[str, dict[str, Check]] = {
    "postgresql": {
        "snapshots": snapshots.check,
        "vacuum": vacuum.check,
        "claim_plan": check_claim_plan,
        "pooling": connections.check_pooling,
        "connections": connections.check,
        "wall": schema.check_row_security,
        "indexes": schema.check_indexes,
        "clocks": clocks.check,
    },
    "sqlite": {
        "file": sqlite_file.check,
        "soundness": sqlite_file.check_soundness,
        "claim_plan": check_claim_plan,
        "indexes": schema.check_indexes,
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
    """Run all checks, each with a time limit. A check that fails is a finding too.

    `limits` are the seconds of some checks, by name; the others have TIME_LIMIT_SECONDS.
    """
    found = [
        finding
        for name, check in CHECKS[connection.vendor].items()
        for finding in _run(name, check, limits.get(name))
    ]
    worst_first = sorted(found, key=lambda finding: list(Severity).index(finding.severity))
    return Examination(datetime.now(UTC), connection.vendor, worst_first)


def _run(name: str, check: Check, limit_seconds: float | None) -> list[Finding]:
    try:
        with read_only(limit_seconds):
            return list(check())
    except DatabaseError as error:
        return [_failed(name, error)]


def _failed(name: str, error: DatabaseError) -> Finding:
    subject = name.replace("_", " ")
    why = "This check did not run, so it says nothing about the database."
    if lacks_privilege(error):
        what = f"{subject}: this database role lacks the privilege to look."
        mend = f"GRANT pg_monitor TO {own_role()};  -- as a superuser"
        return Finding(f"{name}.unseen", Severity.NOTICE, what, why, mend)
    how = "did not answer in time" if timed_out(error) else f"answered with {type(error).__name__}"
    return Finding(f"{name}.unseen", Severity.PROBLEM, f"{subject}: the database {how}.", why)
