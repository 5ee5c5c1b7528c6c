"""Whose turn it is: weighted round robin between the firms that have work of one priority.

A lap visits each of these firms once, in the order of their ids. A visit adds the firm's weight to
its credit and serves one job for each whole unit of it; the rest is kept. So a weight of 3 means
three jobs in each lap, a weight of 0.25 one job in every fourth, and nobody waits for longer than
a lap because of another firm's backlog. Where a batch ends, the next one goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil

from jobs.engine.rounds import LEAST_BATCH, Round

DEFAULT_WEIGHT = 1.0
LEAST_WEIGHT = 0.01
# Ten times 0.1 is a little less than 1 to a computer.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Place:
    """Where the turn stands in the line of one priority.

    `last` is the firm whose turn was the last to end, `cut` the one whose turn the end of a batch
    interrupted. `credits` names only firms that save for a job, or have jobs left of their turn.
    """

    last: int = 0
    cut: int | None = None
    credits: Mapping[int, float] = field(default_factory=dict)

    @property
    def start(self) -> int:
        """The id behind which the next visit is looked for."""
        return self.last if self.cut is None else self.cut - 1


@dataclass
class Turns:
    """Whose turn it is, per priority; each worker keeps its own in memory."""

    places: dict[int, Place] = field(default_factory=dict)
    # Weights other than the default, and when they were read, by the monotonic clock.
    weights: Mapping[int, float] = field(default_factory=dict)
    weights_read_at: float | None = None
    # What the last look found, where it is still good.
    round: Round | None = None

    def known_round(self, limit: int, now: float) -> Round | None:
        """Return the round a claim of so many jobs may deal from; None: it has to look."""
        if self.round is None or limit < LEAST_BATCH or now >= self.round.ends_at:
            return None
        return self.round

    def place(self, priority: int) -> Place:
        """Return where the turn stands; at first, before the firm with the lowest id."""
        return self.places.get(priority, Place())


class Line:
    """Deals one batch out to firms, in the order of their turns."""

    def __init__(self, place: Place, weights: Mapping[int, float], limit: int) -> None:
        self.order: list[int] = []
        self._place = place
        self._weights = weights
        self._limit = limit
        self._firms: list[int] = []
        self._credits = dict(place.credits)
        # The firm whose turn goes on is not paid for it twice.
        self._resumed = place.cut
        self._cut: int | None = None
        self._last = place.last
        self._went_round = False

    def is_full(self) -> bool:
        """Say whether the batch is dealt out."""
        return len(self.order) >= self._limit

    def visit(self, firms: Iterable[int]) -> None:
        """Serve firms that have work and were not visited yet, as far as the batch reaches."""
        for firm_id in firms:
            if self.is_full():
                return
            self._firms.append(firm_id)
            self._serve(firm_id)

    def go_round(self) -> None:
        """Serve the visited firms, which are all that have work, lap by lap until full."""
        self._went_round = not self.is_full()
        if self._each_gets_one():
            self._serve_whole_laps()
        while self._firms and not self.is_full():
            self._skip_empty_laps()
            for firm_id in self._firms:
                if self.is_full():
                    return
                self._serve(firm_id)

    def place_after(self, taken: Mapping[int, int]) -> Place:
        """Return where the turn stands when these numbers of jobs were there to be taken.

        A firm that had fewer than it was dealt has no work left, nor has one that was passed
        without a visit: their credit is forgotten, so it can neither pile up nor fill the memory.
        """
        dealt = Counter(self.order)
        dry = {firm_id for firm_id in dealt if taken.get(firm_id, 0) < dealt[firm_id]}
        known = set(self._firms)
        kept = {
            firm_id: credit
            for firm_id, credit in self._credits.items()
            if firm_id not in dry and (firm_id in known or not self._passed(firm_id))
        }
        if self._cut in dry:
            return Place(self._cut, None, kept)
        return Place(self._last, self._cut, kept)

    def _serve(self, firm_id: int) -> None:
        credit = self._credits.pop(firm_id, 0.0)
        if firm_id != self._resumed:
            credit += self._weight(firm_id)
        self._resumed = None
        due = credit + ROUNDING
        jobs = int(min(due, self._limit - len(self.order)))
        self.order += [firm_id] * jobs
        if credit - jobs > ROUNDING:
            self._credits[firm_id] = credit - jobs
        if due - jobs >= 1:
            self._cut = firm_id
        else:
            self._last = firm_id

    def _each_gets_one(self) -> bool:
        """Say whether each firm gets one job in each lap, as nearly everywhere."""
        return not self._credits and self._weights.keys().isdisjoint(self._firms)

    def _serve_whole_laps(self) -> None:
        """Serve the laps that fit into the batch as a whole, all at once."""
        laps = (self._limit - len(self.order)) // max(len(self._firms), 1)
        if laps > 0:
            self.order += self._firms * laps
            self._last = self._firms[-1]

    def _skip_empty_laps(self) -> None:
        """Pay for the laps in which nobody would have saved enough for a job, all at once."""
        laps = min(
            ceil((1 - self._credits.get(firm_id, 0.0)) / self._weight(firm_id) - ROUNDING)
            for firm_id in self._firms
        )
        for firm_id in self._firms if laps > 1 else ():
            paid = (laps - 1) * self._weight(firm_id)
            self._credits[firm_id] = self._credits.get(firm_id, 0.0) + paid

    def _weight(self, firm_id: int) -> float:
        return self._weights.get(firm_id, DEFAULT_WEIGHT)

    def _passed(self, firm_id: int) -> bool:
        """Whether the firm's place lies between the line's start and its last visit."""
        if self._went_round:
            return True
        start, end = self._place.start, self._firms[-1]
        if start < end:
            return start < firm_id <= end
        return firm_id > start or firm_id <= end
