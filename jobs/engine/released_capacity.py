"""The lock slots and the room under caps and rates that ended attempts give back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from jobs.engine.claim import Claim
from jobs.engine.in_flight import InFlightJob


class WaitingGroup(NamedTuple):
    """The waiting jobs of one firm, lock key (empty for jobs without one) and type."""

    firm_id: int
    lock_key: str
    job_type: str

    @property
    def key(self) -> tuple[int, str]:
        """The firm and its lock key."""
        return self.firm_id, self.lock_key


@dataclass(frozen=True)
class ReleasedCapacity:
    """Lock keys (firm id, key) with a free slot, and groups whose firm has room again."""

    keys: frozenset[tuple[int, str]] = frozenset()
    groups: frozenset[WaitingGroup] = frozenset()

    @classmethod
    def of_jobs(cls, jobs: Iterable[Claim | InFlightJob]) -> ReleasedCapacity:
        """Return what these jobs give back when their attempts end."""
        jobs = list(jobs)
        return cls(
            keys=frozenset((job.firm_id, job.lock_key) for job in jobs if job.lock_key is not None),
            groups=frozenset(
                WaitingGroup(job.firm_id, job.lock_key or "", job.job_type)
                for job in jobs
                if job.admitted
            ),
        )

    @classmethod
    def of_key(cls, firm_id: int, lock_key: str) -> ReleasedCapacity:
        """Return one slot of a lock key."""
        return cls(keys=frozenset([(firm_id, lock_key)]))

    def __or__(self, other: ReleasedCapacity) -> ReleasedCapacity:
        return ReleasedCapacity(self.keys | other.keys, self.groups | other.groups)

    def __bool__(self) -> bool:
        return bool(self.keys or self.groups)
