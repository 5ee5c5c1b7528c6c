"""Shares the tokens of rates over all firms between the firms whose jobs wait for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jobs.engine.candidates import Candidate
from jobs.engine.token_bucket import Bucket
from jobs.states import CountedBy

# The same firm comes first for as long as it takes to refill the tokens of so many largest jobs.
JOBS_FIRST = 2


class FirmShares:
    """What each firm of one sweep may take of a bucket of all firms: an equal part, or one job.

    The firms take turns at coming first, by the database's time. The tokens that the first firm's
    next job needs are left to it until it starts; otherwise jobs of few units would keep a job of
    many units waiting for ever.
    """

    def __init__(self, candidates: Mapping[int, Iterable[Candidate]]) -> None:
        # By type and firm, the units of the first job that waits for a rate.
        self._units: dict[str, dict[int, int]] = {}
        for firm_id in sorted(candidates):
            for candidate in sorted(candidates[firm_id], key=lambda one: one.order):
                if candidate.rated:
                    of_type = self._units.setdefault(candidate.group.job_type, {})
                    of_type.setdefault(firm_id, candidate.limit_units)
        self._left = {job_type: set(firms) for job_type, firms in self._units.items()}
        self._first: dict[str, int | None] = {}

    def apportion(self, buckets: Iterable[Bucket], firm_id: int) -> None:
        """Limit the `available` tokens of each bucket of all firms to the firm's share."""
        for bucket in buckets:
            if bucket.key.counted_by == CountedBy.ALL_FIRMS:
                bucket.available = self._share(bucket, firm_id)

    def note(self, buckets: Iterable[Bucket], firm_id: int) -> None:
        """Note that the firm has had its share."""
        for bucket in buckets:
            if bucket.key.counted_by == CountedBy.ALL_FIRMS:
                job_type = bucket.key.job_type
                self._left[job_type].discard(firm_id)
                if bucket.taken and self._first[job_type] == firm_id:
                    self._first[job_type] = None

    def _share(self, bucket: Bucket, firm_id: int) -> float:
        job_type = bucket.key.job_type
        units = self._units[job_type]
        if job_type not in self._first:
            self._first[job_type] = self._first_firm(bucket)
        first = self._first[job_type]
        saved = 0 if first is None or first == firm_id else bucket.rate.units(units[first])
        equal_part = bucket.tokens / max(len(self._left[job_type]), 1)
        one_job = bucket.rate.units(units[firm_id])
        return max(min(bucket.tokens - saved, max(equal_part, one_job)), 0.0)

    def _first_firm(self, bucket: Bucket) -> int:
        units = self._units[bucket.key.job_type]
        most = max(bucket.rate.units(one) for one in units.values())
        turn = bucket.refilled_at.timestamp() * bucket.rate.per_second / (JOBS_FIRST * most)
        return sorted(units)[int(turn) % len(units)]
