"""What a claim and a dialect tell each other: where to look for work, and how much of it to take."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

LAST_FIRM = 2**63 - 1


@dataclass(frozen=True)
class Leg:
    """A straight way along the firms of one priority: behind `after`, up to and with `until`."""

    priority: int
    after: int
    until: int


@dataclass(frozen=True)
class Walk:
    """A way along the firms of one priority: from behind `after` to `until`, round the end.

    Where both are the same it is the whole round. It does not come by the firms `besides`, which
    stand in the order of their ids.
    """

    priority: int
    after: int
    until: int
    besides: Sequence[int] = ()

    @property
    def legs(self) -> list[Leg]:
        """The way in straight parts."""
        if self.after < self.until:
            return self._straight(self.after, self.until)
        return [*self._straight(self.after, LAST_FIRM), *self._straight(0, self.until)]

    def _straight(self, after: int, until: int) -> list[Leg]:
        stops = [firm_id for firm_id in self.besides if after < firm_id <= until]
        starts, ends = [after, *stops], [*(firm_id - 1 for firm_id in stops), until]
        return [
            Leg(self.priority, start, end)
            for start, end in zip(starts, ends, strict=True)
            if start < end
        ]


@dataclass(frozen=True)
class Met:
    """Firms with a claimable job of one priority, in turn, and which of them have a cap."""

    priority: int
    firms: Sequence[int]
    capped: frozenset[int]

    def and_then(self, met: Met) -> Met:
        """Return these and those that were met further on."""
        return Met(self.priority, [*self.firms, *met.firms], self.capped | met.capped)


@dataclass(frozen=True, kw_only=True)
class Claimable:
    """The condition that a job (alias `q`) may be claimed now, and what spares a walk to such a job.

    `categories` and `job_types` are those it names; none means all. `still` and `capped` are
    conditions on a firm (a row `turn`): nothing of it may start, or only what was admitted.
    """

    sql: str
    params: tuple[Any, ...]
    categories: tuple[str, ...]
    job_types: tuple[str, ...]
    still: str
    capped: str


class Mark(NamedTuple):
    """A job's place in the line of its firm."""

    scheduled_at: datetime
    job_id: UUID


# Nothing is due before it. The year has four digits, since SQLite compares times as text.
FIRST_MARK = Mark(datetime(1000, 1, 1, tzinfo=UTC), UUID(int=0))


@dataclass(frozen=True)
class Share:
    """How many jobs of a firm to take, of those behind the mark; of a capped one the admitted."""

    firm_id: int
    jobs: int
    after: Mark = FIRST_MARK
    capped: bool = False


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
