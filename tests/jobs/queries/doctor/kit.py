"""Helpers that most tests of the queue doctor need."""

from __future__ import annotations

from django.db import connection

from jobs.queries.doctor import Finding, Severity, examine
from tenants.scope import all_firms


def findings(prefix: str = "") -> list[Finding]:
    """Return the doctor's findings of the checks whose ids begin with `prefix`."""
    with all_firms("test"):
        return [one for one in examine().findings if one.id.startswith(prefix)]


def ill(prefix: str = "") -> list[Finding]:
    """Return those of these findings that are a notice or a problem."""
    return [one for one in findings(prefix) if one.severity is not Severity.OK]


def only_ill(prefix: str) -> Finding:
    """Return the only one of these findings that is a notice or a problem."""
    (one,) = ill(prefix)
    return one


def mend(finding: Finding) -> None:
    """Run the SQL of the finding's mend, without CONCURRENTLY, which no transaction allows."""
    execute(finding.mend.replace(" CONCURRENTLY", ""))


def execute(sql: str) -> None:
    """Run SQL."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
