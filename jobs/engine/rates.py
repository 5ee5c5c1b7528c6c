"""Which rate limits apply to a job, and in which buckets it is counted.

Of the limits that count in the same bucket one applies: the firm's own rather than one for every
firm, then one for a named key rather than one for any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from jobs.engine.transactions import fetch
from jobs.errors import LONGEST_WAIT_SECONDS
from jobs.states import CountedBy

# Orders the limits `l` that count in the same bucket: the one that applies comes first.
MOST_SPECIFIC_FIRST = "ORDER BY l.everywhere, l.limit_key DESC"


class BucketKey(NamedTuple):
    """Which jobs a bucket counts: those of a firm and type, of a limit key, of a type in all firms.

    `firm_id` is the system firm's for all firms. `job_type` is empty for jobs of any type, and
    `limit_key` where keys are not told apart.
    """

    counted_by: str
    firm_id: int
    job_type: str
    limit_key: str

    def counts(self, job_type: str, limit_key: str | None) -> bool:
        """Say whether jobs of this type and limit key count here, if they are of the right firm."""
        return self.job_type in ("", job_type) and self.limit_key in ("", limit_key)


class Rate(NamedTuple):
    """How fast a bucket is refilled, and how many tokens it holds at most."""

    amount: int
    per_seconds: float
    burst: int

    @property
    def per_second(self) -> float:
        """How many tokens a second adds."""
        return self.amount / self.per_seconds

    def time_for(self, tokens: float) -> timedelta:
        """Return how long it takes to add these tokens, at most a hundred years."""
        return timedelta(seconds=min(tokens / self.per_second, LONGEST_WAIT_SECONDS))

    def units(self, limit_units: int) -> int:
        """Return what a job counts for: at most `burst`, or it could never start."""
        return min(limit_units, self.burst)


class FirmRates:
    """The rate limits that may apply to a firm's jobs."""

    def __init__(self, firm_id: int, limits: Iterable[Sequence[Any]]) -> None:
        self._firm_id = firm_id
        self._limits = list(limits)

    @classmethod
    def read(cls, firm_id: int) -> FirmRates:
        """Read them in the open transaction."""
        limits = fetch(
            f"""
            SELECT l.counted_by, l.firm_id, l.job_type, l.limit_key,
                l.amount, l.per_seconds, l.burst
            FROM jobs_ratelimit l WHERE l.everywhere OR l.firm_id = %s {MOST_SPECIFIC_FIRST}
            """,
            [firm_id],
        )
        return cls(firm_id, limits)

    def of_jobs(self, job_type: str, limit_key: str | None) -> dict[BucketKey, Rate]:
        """Return the buckets that count jobs of this type and limit key, each with its rate."""
        found: dict[BucketKey, Rate] = {}
        for counted_by, owner_id, limited_type, limited_key, *rate in self._limits:
            counts_keys = counted_by == CountedBy.KEY
            if limited_type not in ("", job_type):
                continue
            if counts_keys and (not limit_key or limited_key not in ("", limit_key)):
                continue
            key = BucketKey(
                counted_by,
                owner_id if counted_by == CountedBy.ALL_FIRMS else self._firm_id,
                limited_type,
                limit_key if counts_keys and limit_key else "",
            )
            found.setdefault(key, Rate(*rate))
        return found
