"""Claims jobs for the worker, and gives back claims whose response was lost."""

from __future__ import annotations

from jobs.engine.admission import admit
from jobs.engine.claim import Claim, claim, claim_announced
from jobs.engine.fair_share import FairShare
from jobs.engine.locks import ReleasedCapacity
from jobs.engine.release import release_lost
from jobs.execution.events import emit_released
from jobs.execution.metrics import CLAIM_SECONDS
from jobs.worker.completer import Completer
from jobs.worker.listener import Listener
from jobs.worker.pool import Pool
from jobs.worker.state import SharedState


class Claimer:
    """Claims jobs of these categories and types; empty means all.

    `claimed` counts the jobs. `in_doubt`: a claim whose response was lost may be committed.
    """

    def __init__(
        self,
        state: SharedState,
        pool: Pool,
        completer: Completer,
        listener: Listener,
        *,
        categories: tuple[str, ...],
        job_types: tuple[str, ...],
    ) -> None:
        self.claimed = 0
        self.in_doubt = False
        self._state = state
        self._pool = pool
        self._completer = completer
        self._listener = listener
        self._categories = categories
        self._job_types = job_types
        self._fair_share = FairShare()

    def claim(self, wanted: int) -> list[Claim]:
        """Claim up to `wanted` jobs; an empty list means that there are no more.

        Quarantined jobs are not claimed until the pool has room for one.

        Raises:
            DatabaseError: the claim failed; some jobs may be claimed nevertheless.
        """
        in_doubt = self.in_doubt and self.release_lost()
        self.in_doubt = True
        # Without room, quarantined jobs would be claimed and given back again and again.
        quarantined = self._pool.has_room_for_quarantined
        with CLAIM_SECONDS.time(), self._state.turns.working():
            claims = self._claim_announced(quarantined) or claim(
                self._state.worker_id,
                wanted,
                self._fair_share,
                categories=self._categories,
                job_types=self._job_types,
                quarantined=quarantined,
                starts=self._pool.ready_threads > 0,
            )
        self.in_doubt = in_doubt
        self.claimed += len(claims)
        return claims

    def release_lost(self) -> bool:
        """Release claims whose response was lost; return True while others lock some of them."""
        known = self._pool.known_tokens() | self._completer.known_tokens()
        lost, left = release_lost(self._state.worker_id, known)
        emit_released(lost)
        admit(ReleasedCapacity.of_jobs(job for job, _ in lost))
        return left

    def _claim_announced(self, quarantined: bool) -> list[Claim]:
        """Claim the job that the last notification named.

        Only while another thread is left for jobs that come before it, which the next claim finds.
        """
        announced = self._listener.take_announced()
        if announced is None or self._pool.ready_threads < 2:
            return []
        if not announced.is_served_by(self._categories, self._job_types):
            return []
        return claim_announced(
            self._state.worker_id,
            announced,
            categories=self._categories,
            job_types=self._job_types,
            quarantined=quarantined,
        )
