"""Where the claims of one worker go on in a long backlog.

A claimed job stays in the claim's indexes until it is settled, so whoever has claimed thousands of
short jobs passes all of them in each claim, twice: in the scan and in the take. After a claim that
was filled, the next ones take later jobs of the same firms, and look whether anybody else has work:
another firm, or one of more urgent work, has its turn in the next batch all the same. What these
firms have before it is found when the backlog ends: with the first claim that is not filled, or
after BACKLOG_SECONDS.
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
# Claims of fewer jobs have little to pass.
LEAST_CLAIM = 100


@dataclass(frozen=True)
class Backlog:
    """The firms with work that a scan found, and the last job of each in the last claim.

    `until`: by the monotonic clock.
    """

    wanted: ClaimFilter
    found: FirmsWithWork
    last: Mapping[int, Position] = field(default_factory=dict)
    until: float = field(default_factory=lambda: time.monotonic() + BACKLOG_SECONDS)

    def serves(self, wanted: ClaimFilter, limit: int) -> bool:
        """Say whether a claim of that many jobs may go on here, unless one of `others` has work."""
        return (
            len(self.found.firms) < LEAST_CLAIM <= limit
            and self.wanted == wanted
            and time.monotonic() < self.until
        )

    def others(self) -> list[Range]:
        """Return the ranges of all that goes before it or has turns beside it."""
        priority, firms = self.found.priority, sorted(self.found.firms)
        ranges = [Range(one.value, 0, LAST_FIRM) for one in Priority if one < priority]
        ends = [*(firm_id - 1 for firm_id in firms), LAST_FIRM]
        ranges += [Range(priority, *gap) for gap in zip([0, *firms], ends, strict=True)]
        return [one for one in ranges if one.after < one.until]

    def after(self, firm_id: int) -> Position:
        """Return the place behind which the next job of this firm is."""
        return self.last.get(firm_id, BEGINNING)

    def beginning_after(self, firm_id: int) -> Backlog:
        """Return it with its firms in the order of a scan that begins behind this one."""
        firms = sorted(self.found.firms, key=lambda one: (one <= firm_id, one))
        return replace(self, found=self.found._replace(firms=firms))

    def behind(self, claims: Iterable[Claim]) -> Backlog:
        """Return what is left of it behind these claims, which are in order."""
        last = {claim.firm_id: claim for claim in claims}
        positions = {
            firm_id: Position(claim.scheduled_at, claim.job_id) for firm_id, claim in last.items()
        }
        return replace(self, last=positions)
