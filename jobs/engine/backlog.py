"""Where the next claims of a worker begin in a long backlog.

A claimed job stays in the claim's indexes until it is settled. A worker that has claimed thousands
of short jobs would therefore pass all of them in each claim, twice: in the scan and in the take. So
after a filled claim, the next claims take later jobs of the same firms. Each first checks whether
another firm, or a more urgent priority, has work; if so, a scan gives that its turn. Earlier jobs
of the same firms are found when the backlog ends: with the first claim that is not filled, or after
BACKLOG_SECONDS.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
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

BACKLOG_SECONDS = 0.25
# A smaller claim has few claimed jobs to pass, so it scans.
LEAST_CLAIM = 100


@dataclass(frozen=True)
class Backlog:
    """The firms with work that a scan found, and the last job of each in the last claim.

    `until` is a time of the monotonic clock.
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
