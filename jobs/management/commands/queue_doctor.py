"""`manage.py queue_doctor`: what is wrong with the database, and what would mend it?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError
from rich.table import Column, Table
from rich.text import Text

from interfaces.commands import EXIT_REFUSED, JsonCommand
from interfaces.moments import iso
from interfaces.tables import print_padded, printable
from jobs.queries.doctor import Examination, Finding, Severity, examine
from tenants.scope import all_firms

INDENT = 9
_STYLES = {Severity.PROBLEM: "bold red", Severity.NOTICE: "yellow", Severity.OK: "green"}


class Command(JsonCommand):
    """Exits 1 when there is something to mend; it changes nothing itself."""

    help = "Check the database that the queue uses, and say how to mend what is wrong."

    def handle(self, *_: Any, json: bool, **__: Any) -> None:
        """Examine the database and print the findings."""
        with all_firms("the doctor checks the database, not the rows of a firm"):
            examination = examine()
        if json:
            self.emit(_as_json(examination))
        else:
            for finding in examination.findings:
                self._print(finding)
        problems = len(examination.of(Severity.PROBLEM))
        if problems:
            # Not a refusal, which would print a second JSON object on stdout.
            raise CommandError(f"{problems} to mend", returncode=EXIT_REFUSED)

    def _print(self, finding: Finding) -> None:
        style = _STYLES[finding.severity]
        grid = Table.grid(Column(width=INDENT), Column(overflow="fold"))
        grid.add_row(Text(finding.severity.value, style=style), printable(finding.what))
        if finding.severity is not Severity.OK:
            grid.add_row("", Text(finding.why, style="dim"))
        console = self.console()
        print_padded(console, grid)
        if finding.mend:
            # On one line, so that it can be copied: only the terminal may wrap it.
            console.print(" " * INDENT + printable(finding.mend), soft_wrap=True)


def _as_json(examination: Examination) -> dict[str, Any]:
    return {
        "generated_at": iso(examination.at),
        "database": examination.database,
        "findings": [
            {**asdict(finding), "mend": finding.mend or None} for finding in examination.findings
        ],
    }
