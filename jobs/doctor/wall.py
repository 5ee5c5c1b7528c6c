"""Whether row level security, the second wall between firms, holds."""

from __future__ import annotations

from collections.abc import Iterator

from jobs.doctor.finding import Finding, Severity
from tenants.rls import holes

WHY = "With a hole in it, one mistake in a query shows a firm's rows to another."


def look() -> Iterator[Finding]:
    """Name every hole."""
    found = list(holes())
    for hole in found:
        yield Finding("wall.hole", Severity.PROBLEM, f"{hole}.".capitalize(), WHY, hole.mend)
    if not found:
        what = "Row level security is forced on every table that a firm owns."
        yield Finding("wall", Severity.OK, what, WHY)
