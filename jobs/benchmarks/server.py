"""A worker without processes: it claims as workers do, and completes its jobs at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from uuid_utils.compat import uuid7

from jobs.benchmarks.rows import complete
from jobs.engine.claim import Claim, claim
from jobs.engine.fair_share import FairShare


class Server:
    """Claims for firms by fair share; empty `job_types` means all."""

    def __init__(self, worker_id: UUID | None = None, *, job_types: tuple[str, ...] = ()) -> None:
        self.fair_share = FairShare()
        self._worker_id = worker_id or uuid7()
        self._job_types = job_types

    def claim(self, limit: int) -> list[Claim]:
        """Claim one batch."""
        return claim(self._worker_id, limit, self.fair_share, job_types=self._job_types)

    def finish(self, claims: Sequence[Claim]) -> list[int]:
        """Complete these jobs; return their firms, in order."""
        complete([one.job_id for one in claims])
        return [one.firm_id for one in claims]

    def serve(self, limit: int) -> list[int]:
        """Claim and complete one batch; return the firms of its jobs, in order."""
        return self.finish(self.claim(limit))

    def services(self, limit: int) -> Iterator[int]:
        """Yield the firms of all jobs, batch after batch, until nothing is left."""
        while served := self.serve(limit):
            yield from served
