"""What a finding is, and how the command line shows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict


class Severity(StrEnum):
    """How much a finding matters; the worst comes first."""

    PROBLEM = "problem"
    NOTICE = "notice"
    OK = "ok"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `mend` is SQL or a setting, empty where nothing is to do."""

    id: str
    severity: Severity
    what: str
    why: str
    mend: str = ""


class FindingRow(TypedDict):
    """A finding as JSON."""

    id: str
    severity: str
    what: str
    why: str
    mend: str | None


def finding_row(finding: Finding) -> FindingRow:
    """Return a finding as JSON."""
    return FindingRow(
        id=finding.id,
        severity=finding.severity.value,
        what=finding.what,
        why=finding.why,
        mend=finding.mend or None,
    )
