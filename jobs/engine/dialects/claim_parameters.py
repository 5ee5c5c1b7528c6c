"""The parameters of a claim: what it scans, and what it may take."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

LAST_FIRM = 2**63 - 1


class Range(NamedTuple):
    """Firms of one priority by id: greater than `after`, at most `until`."""

    priority: int
    after: int
    until: int


def firm_ranges(priority: int, after: int, until: int) -> list[Range]:
    """Return the ranges that lead from `after` to `until`, wrapping around at the highest id.

    If both are the same, the ranges cover every firm.
    """
    if after < until:
        return [Range(priority, after, until)]
    wrapped = [Range(priority, after, LAST_FIRM), Range(priority, 0, until)]
    return [one for one in wrapped if one.after < one.until]


class FirmsWithWork(NamedTuple):
    """Firms with a claimable job of one priority, in scan order, and which of them have a cap."""

    priority: int
    firms: Sequence[int]
    capped: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class ClaimFilter:
    """The condition that a job (alias `q`) may be claimed now.

    `categories` and `job_types` are those it names; none means all. `blocked` and `capped` are
    conditions on a firm (alias `firm`) that spare the scan of its jobs, because none of them may
    start, or only admitted ones.
    """

    sql: str
    # Not compared, because statements are cached by filter, whatever the values.
    params: tuple[Any, ...] = field(compare=False)
    categories: tuple[str, ...]
    job_types: tuple[str, ...]
    blocked: str
    capped: str


class Position(NamedTuple):
    """The place of a job among those of its firm and priority."""

    scheduled_at: datetime
    job_id: UUID


# Before every job.
BEGINNING = Position(datetime(1, 1, 1, tzinfo=UTC), UUID(int=0))


class Quota(NamedTuple):
    """How many jobs to take of a firm: admitted ones if it is capped, else those after `after`."""

    firm_id: int
    jobs: int
    capped: bool
    after: Position = BEGINNING


def named_sql(
    alias: str, categories: Collection[str], job_types: Collection[str]
) -> tuple[str, list[str]]:
    """Return the condition that a row has one of these categories and types; none means all."""
    conditions: list[str] = ["true"]
    params: list[str] = []
    for column, named in (("category", categories), ("job_type", job_types)):
        if named:
            conditions.append(f"{alias}.{column} IN ({', '.join(['%s'] * len(named))})")
            params.extend(named)
    return " AND ".join(conditions), params
