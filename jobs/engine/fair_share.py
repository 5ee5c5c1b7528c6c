"""Fair sharing between firms: deficit round robin over those with work of one priority.

A round visits each of these firms once, in the order of their ids. A visit adds the firm's weight
to its deficit, serves one job for each whole unit of the deficit, and keeps the rest. So a weight
of 3 means three jobs in each round, a weight of 0.25 one job in every fourth, and no firm waits
longer than a round because of another's backlog. Each batch continues where the last one ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil

from jobs.engine.backlog import Backlog

DEFAULT_WEIGHT = 1.0
LEAST_WEIGHT, MOST_WEIGHT = 0.01, 1000.0
# In binary floating point, ten times 0.1 adds up to a little less than 1.
ROUNDING = 1e-9


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
