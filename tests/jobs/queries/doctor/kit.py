"""What the tests of the queue doctor do all the time."""

from __future__ import annotations

from django.db import connection

from jobs.queries.doctor import Finding, Severity, examine
from tenants.scope import all_firms


def findings(prefix: str = "") -> list[Finding]:
    """Return what the doctor finds now, of the checks whose ids begin so."""
    with all_firms("test"):
        return [one for one in examine().findings if one.id.startswith(prefix)]


def ill(prefix: str = "") -> list[Finding]:
    """Return what is not well among them."""
    return [one for one in findings(prefix) if one.severity is not Severity.OK]


def only_ill(prefix: str) -> Finding:
    """Return the one finding among them that is not well."""
    (one,) = ill(prefix)
    return one


def mend(finding: Finding) -> None:
    """Run what a finding gives to be run; the test's transaction cannot do it concurrently."""
    execute(finding.mend.replace(" CONCURRENTLY", ""))


def execute(sql: str) -> None:
    """Run SQL."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
