"""What the end of an attempt leaves for others, so that whoever ended it can hand it on at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


class Holder(Protocol):
    """A job that was let through, as a claim or a rescue knows it."""

    @property
    def firm_id(self) -> int:
        """The firm whose room it took."""

    @property
    def lock_key(self) -> str | None:
        """The key of which it held a slot."""

    @property
    def job_type(self) -> str:
        """Its type."""

    @property
    def admitted(self) -> bool:
        """Whether it was counted against a cap or a rate."""


@dataclass(frozen=True, order=True)
class Strand:
    """What waits for the same things; `lock_key` empty for jobs without one."""

    firm_id: int
    lock_key: str
    job_type: str

    @property
    def key(self) -> tuple[int, str]:
        """The firm and its lock key."""
        return self.firm_id, self.lock_key


@dataclass(frozen=True)
class Freed:
    """Slots of keys (firm id, lock key), and room in the firms of these strands."""

    keys: frozenset[tuple[int, str]] = frozenset()
    room: frozenset[Strand] = frozenset()

    @classmethod
    def by(cls, jobs: Iterable[Holder]) -> Freed:
        """Return what these jobs gave up."""
        jobs = list(jobs)
        return cls(
            keys=frozenset((job.firm_id, job.lock_key) for job in jobs if job.lock_key is not None),
            room=frozenset(
                Strand(job.firm_id, job.lock_key or "", job.job_type)
                for job in jobs
                if job.admitted
            ),
        )

    @classmethod
    def key(cls, firm_id: int, lock_key: str) -> Freed:
        """Return the slot of one key."""
        return cls(keys=frozenset([(firm_id, lock_key)]))

    def __or__(self, other: Freed) -> Freed:
        return Freed(self.keys | other.keys, self.room | other.room)

    def __bool__(self) -> bool:
        return bool(self.keys or self.room)
