"""What a look at all firms found, kept for the claims of the next moments.

Where a look came all the way round, every firm with work of one priority is known, and the claims
that follow deal from these firms without a look, as long as each comes back at least half full. Nor
do they start at the beginning of a firm's line, where its jobs in flight stand and what vacuum has
not removed yet, but behind the last job they took of it.

So what comes in meanwhile may wait for the round's end: a job due before one that was taken already
(released, admitted, enqueued for a moment long past). A round lasts ROUND_SECONDS, or so much longer
that looks take a small part of the time: one that comes upon many dead rows takes long. In a round
that lasts longer, glances find firms that had no work, and higher priorities; they go past the lines
that are known, and are as far apart by the same rule. After a costly look the round goes on to its
end even where a claim comes back short or empty: firms whose lines have come to an end are asked
again, behind their last job, with each glance, or at once where no other has work; then a glance
looks at lower priorities too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jobs.engine.dialects.claiming import FIRST_MARK, Mark, Met, Share

ROUND_SECONDS = 0.1
ROUND_PER_LOOK = 10.0
LONGEST_ROUND_SECONDS = 60.0
# Rather than look again after this long a look, firms are kept that may have no more work.
COSTLY_LOOK_SECONDS = 0.05
# Who claims fewer at once runs long jobs: a look more costs nothing beside them, and is exact.
LEAST_BATCH = 20


@dataclass(frozen=True)
class Round:
    """The firms with work of one priority, by id, and how far the line of each was served.

    Both moments are of the monotonic clock: when to look for what is new, and when at everything.
    `dry` are firms whose lines had come to an end; only a `costly` round remembers them.
    """

    priority: int
    firms: Sequence[int]
    capped: frozenset[int]
    marks: Mapping[int, Mark] = field(default_factory=dict)
    glance_at: float = 0.0
    ends_at: float = 0.0
    costly: bool = False
    dry: frozenset[int] = frozenset()

    @classmethod
    def of(cls, met: Met) -> Round:
        """Return a round of the firms met, nobody served yet."""
        return cls(met.priority, sorted(met.firms), met.capped)

    def timed(self, begun: float, ended: float) -> Round:
        """Return it as it lasts after a look at everything that took so long."""
        return replace(
            self,
            glance_at=ended + ROUND_SECONDS,
            ends_at=_next_look(begun, ended),
            costly=ended - begun > COSTLY_LOOK_SECONDS,
        )

    @property
    def known(self) -> list[int]:
        """The firms whose lines it knows, whether they have work or not."""
        return sorted({*self.firms, *self.dry})

    @property
    def is_drained(self) -> bool:
        """Whether none of its firms had work left."""
        return not self.firms

    def with_dry(self) -> Round:
        """Return it with the dry firms among those that may have work."""
        return replace(self, firms=self.known, dry=frozenset())

    def in_turn(self, start: int) -> list[int]:
        """Return the firms as a lap visits them that begins behind `start`."""
        return sorted(self.firms, key=lambda firm_id: (firm_id <= start, firm_id))

    def share(self, firm_id: int, jobs: int) -> Share:
        """Return how to take so many jobs of a firm."""
        return Share(firm_id, jobs, self.marks.get(firm_id, FIRST_MARK), firm_id in self.capped)

    def joined_by(self, met: Met | None, begun: float, ended: float) -> Round:
        """Return it after a glance that took so long, with the firms that were met."""
        new = met.firms if met else ()
        return replace(
            self,
            firms=sorted({*self.known, *new}),
            dry=frozenset(),
            # One whose line had come to an end is as it was met, and its line begins anew.
            capped=self.capped.difference(new) | (met.capped if met else frozenset()),
            marks={one: mark for one, mark in self.marks.items() if one not in new},
            glance_at=_next_look(begun, ended),
        )

    def served(self, last: Mapping[int, Mark], dry: Collection[int]) -> Round:
        """Return it after a claim: its last job of each firm, and whose line came to an end."""
        firms = [firm_id for firm_id in self.firms if firm_id not in dry]
        kept = self.dry.union(dry) if self.costly else frozenset()
        return replace(self, firms=firms, dry=kept, marks={**self.marks, **last})

    def goes_on_after(self, claimed: int, limit: int) -> bool:
        """Say whether claims deal from it after one that got `claimed` of `limit` jobs."""
        if limit < LEAST_BATCH:
            return False
        return self.costly or (not self.is_drained and 2 * claimed >= limit)


def _next_look(begun: float, ended: float) -> float:
    pause = max(ROUND_SECONDS, ROUND_PER_LOOK * (ended - begun))
    return ended + min(pause, LONGEST_ROUND_SECONDS)
