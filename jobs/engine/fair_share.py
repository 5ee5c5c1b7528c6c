"""Fair sharing between firms: deficit round robin over those with work of one priority.

A round visits each of these firms once, in the order of their ids. A visit adds the firm's weight
to its deficit, serves one job for each whole unit of the deficit, and keeps the rest. So a weight
of 3 means three jobs in each round, a weight of 0.25 one job in every fourth, and no firm waits
longer than a round because of another's backlog. Each batch continues where the last one ended.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING

from jobs.engine.dialects.claim_parameters import (
    BEGINNING,
    LAST_FIRM,
    ClaimFilter,
    FirmsWithWork,
    Position,
    Range,
)
from jobs.states import Priority

if TYPE_CHECKING:
    from jobs.engine.claim import Claim

DEFAULT_WEIGHT = 1.0
LEAST_WEIGHT, MOST_WEIGHT = 0.01, 1000.0
# In binary floating point, ten times 0.1 adds up to a little less than 1.
ROUNDING = 1e-9
# Earlier jobs of the same firms are found when the backlog ends: with the first claim that is not
# filled, or after this time.
BACKLOG_SECONDS = 0.25
# A smaller claim has few claimed jobs to pass, so it scans.
LEAST_CLAIM = 100


def within_bounds(weight: float) -> float:
    """Return a stored weight within the bounds, because SQL can store any number.

    NaN is not greater than anything, so it counts as the least weight.
    """
    return min(max(LEAST_WEIGHT, weight), MOST_WEIGHT)


@dataclass(frozen=True)
class Cursor:
    """Where the next batch of one priority begins.

    `last` is the firm whose visit ended last, `cut` the one whose visit the end of a batch
    interrupted. `deficits` names only firms with a part of a job saved up, or jobs left of a visit.
    """

    last: int = 0
    cut: int | None = None
    deficits: Mapping[int, float] = field(default_factory=dict)

    @property
    def after(self) -> int:
        """The next visit is to the first firm with work whose id is greater than this."""
        return self.last if self.cut is None else self.cut - 1


@dataclass
class FairShare:
    """The cursor of each priority, and the weights; each worker keeps its own in memory."""

    cursors: dict[int, Cursor] = field(default_factory=dict)
    # Weights other than the default, and when they were read, by the monotonic clock.
    weights: Mapping[int, float] = field(default_factory=dict)
    weights_read_at: float | None = None
    backlog: Backlog | None = None

    def cursor(self, priority: int) -> Cursor:
        """Return the cursor of a priority; at first it is before the lowest id."""
        return self.cursors.get(priority, Cursor())


class VisitingOrder:
    """Allots the jobs of one batch to firms; `allotted` has the firm of each job, in order."""

    def __init__(self, cursor: Cursor, weights: Mapping[int, float], limit: int) -> None:
        self.allotted: list[int] = []
        self._cursor = cursor
        self._weights = weights
        self._limit = limit
        self._firms: list[int] = []
        self._deficits = dict(cursor.deficits)
        # A visit that is resumed does not add the weight again.
        self._resumed = cursor.cut
        self._cut: int | None = None
        self._last = cursor.last
        self._repeated = False

    def is_full(self) -> bool:
        """Say whether every job of the batch is allotted."""
        return len(self.allotted) >= self._limit

    def visit(self, firms: Iterable[int]) -> None:
        """Visit firms with work for the first time, until the batch is full."""
        for firm_id in firms:
            if self.is_full():
                return
            self._firms.append(firm_id)
            self._visit(firm_id)

    def repeat_rounds(self) -> None:
        """Visit the same firms round after round until the batch is full.

        Call it only when they are all that have work.
        """
        self._repeated = not self.is_full()
        if self._each_gets_one():
            self._visit_whole_rounds()
        while self._firms and not self.is_full():
            self._skip_empty_rounds()
            for firm_id in self._firms:
                if self.is_full():
                    return
                self._visit(firm_id)

    def cursor_after(self, taken: Mapping[int, int]) -> Cursor:
        """Return the cursor after these numbers of jobs were taken of each firm.

        The deficits of firms without work are dropped: of those that had fewer jobs than were
        allotted, and of those that the scan passed without a visit.
        """
        allotted = Counter(self.allotted)
        empty = {firm_id for firm_id in allotted if taken.get(firm_id, 0) < allotted[firm_id]}
        visited = set(self._firms)
        kept = {
            firm_id: deficit
            for firm_id, deficit in self._deficits.items()
            if firm_id not in empty and (firm_id in visited or not self._passed(firm_id))
        }
        if self._cut in empty:
            return Cursor(self._cut, None, kept)
        return Cursor(self._last, self._cut, kept)

    def _visit(self, firm_id: int) -> None:
        deficit = self._deficits.pop(firm_id, 0.0)
        if firm_id != self._resumed:
            deficit += self._weight(firm_id)
        self._resumed = None
        due = deficit + ROUNDING
        jobs = int(min(due, self._limit - len(self.allotted)))
        self.allotted += [firm_id] * jobs
        if deficit - jobs > ROUNDING:
            self._deficits[firm_id] = deficit - jobs
        if due - jobs >= 1:
            self._cut = firm_id
        else:
            self._last = firm_id

    def _each_gets_one(self) -> bool:
        """Say whether each firm gets one job in each round, as with default weights."""
        return not self._deficits and self._weights.keys().isdisjoint(self._firms)

    def _visit_whole_rounds(self) -> None:
        """Add the rounds that fit into the batch as a whole, in one step."""
        rounds = (self._limit - len(self.allotted)) // max(len(self._firms), 1)
        if rounds > 0:
            self.allotted += self._firms * rounds
            self._last = self._firms[-1]

    def _skip_empty_rounds(self) -> None:
        """Add the weights of the rounds in which no firm would be served, in one step."""
        rounds = min(
            ceil((1 - self._deficits.get(firm_id, 0.0)) / self._weight(firm_id) - ROUNDING)
            for firm_id in self._firms
        )
        for firm_id in self._firms if rounds > 1 else ():
            added = (rounds - 1) * self._weight(firm_id)
            self._deficits[firm_id] = self._deficits.get(firm_id, 0.0) + added

    def _weight(self, firm_id: int) -> float:
        return self._weights.get(firm_id, DEFAULT_WEIGHT)

    def _passed(self, firm_id: int) -> bool:
        """Say whether the scan of this batch would have met the firm, if it had work."""
        if self._repeated:
            return True
        start, end = self._cursor.after, self._firms[-1]
        if start < end:
            return start < firm_id <= end
        return firm_id > start or firm_id <= end


@dataclass(frozen=True)
class Backlog:
    """The firms with work that a scan found, and the last job of each in the last claim.

    A claimed job stays in the claim's indexes until it is settled. A worker that has claimed
    thousands of short jobs would therefore pass all of them in each claim, twice: in the scan and
    in the take. So after a filled claim, the next claims take later jobs of the same firms. Each
    first checks whether another firm, or a more urgent priority, has work; if so, a scan gives that
    its turn. `until` is a time of the monotonic clock.
    """

    wanted: ClaimFilter
    found: FirmsWithWork
    last: Mapping[int, Position] = field(default_factory=dict)
    until: float = field(default_factory=lambda: time.monotonic() + BACKLOG_SECONDS)

    def serves(self, wanted: ClaimFilter, limit: int) -> bool:
        """Say whether a claim of `limit` jobs may continue here, if none of `others` has work."""
        return (
            len(self.found.firms) < LEAST_CLAIM <= limit
            and self.wanted == wanted
            and time.monotonic() < self.until
        )

    def others(self) -> list[Range]:
        """Return the ranges of more urgent priorities, and of the other firms of this priority."""
        priority, firms = self.found.priority, sorted(self.found.firms)
        ranges = [Range(one.value, 0, LAST_FIRM) for one in Priority if one < priority]
        ends = [*(firm_id - 1 for firm_id in firms), LAST_FIRM]
        ranges += [Range(priority, *gap) for gap in zip([0, *firms], ends, strict=True)]
        return [one for one in ranges if one.after < one.until]

    def after(self, firm_id: int) -> Position:
        """Return the position after which the next job of this firm is taken."""
        return self.last.get(firm_id, BEGINNING)

    def beginning_after(self, firm_id: int) -> Backlog:
        """Return this backlog with its firms in the order of a scan that begins after this firm."""
        firms = sorted(self.found.firms, key=lambda one: (one <= firm_id, one))
        return replace(self, found=self.found._replace(firms=firms))

    def behind(self, claims: Iterable[Claim]) -> Backlog:
        """Return this backlog with its positions after these claims, which are in order."""
        last = {claim.firm_id: claim for claim in claims}
        positions = {
            firm_id: Position(claim.scheduled_at, claim.job_id) for firm_id, claim in last.items()
        }
        return replace(self, last=positions)
