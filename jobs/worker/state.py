"""What the threads of one worker share: its identity, its lease, and the order to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from random import Random, SystemRandom
from uuid import UUID

from uuid_utils.compat import uuid7

from jobs.conf import lease_seconds
from jobs.engine.claim import Claim
from jobs.execution.context import Flag
from jobs.execution.events import Event, emit
from jobs.execution.failures import class_path

# The lease is trusted until this share of it is gone since the request that got it began.
TRUSTED_SHARE = 0.8


class Lease:
    """One life of the worker's lease. When it is lost, all that hangs on it stops."""

    def __init__(self) -> None:
        self.worker_id: UUID = uuid7()
        self.lost = Flag()
        self._trusted_until = 0.0

    def extended(self, requested_at: float) -> None:
        """Note that the database extended it, asked at this moment of the monotonic clock."""
        self._trusted_until = requested_at + lease_seconds() * TRUSTED_SHARE

    def covers(self, claim: Claim) -> bool:
        """Say whether the claim was made under it."""
        # Comparing ids by value takes as long as anything else that is done for a short job.
        return claim.worker_id is self.worker_id or claim.worker_id == self.worker_id

    @property
    def trusted(self) -> bool:
        """Whether it surely still holds, going by this machine's monotonic clock."""
        return time.monotonic() < self._trusted_until


class WorkerState:
    """Shared by the threads of one worker process."""

    def __init__(self) -> None:
        self.rng: Random = SystemRandom()
        # Set: claim nothing more. `halt` set: the threads end.
        self.stopping = threading.Event()
        self.halt = threading.Event()
        # A handler cannot be ended: the process has to.
        self.stuck = threading.Event()
        # A thread of the worker's own fell: nothing it kept up can be trusted any more.
        self.broken = threading.Event()
        self._lease = Lease()
        self._lock = threading.Lock()

    def start_thread(self, name: str, work: Callable[[], None]) -> None:
        """Run `work` on a thread; if it raises, the worker is broken and ends."""

        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - whatever it was, the thread is gone
                emit(Event.WORKER_BROKEN, thread=name, error_class=class_path(error))
                self.broken.set()
                self.stopping.set()

        threading.Thread(target=run, name=name, daemon=True).start()

    @property
    def lease(self) -> Lease:
        """The lease in force."""
        return self._lease

    @property
    def worker_id(self) -> UUID:
        """The id the worker goes by now."""
        return self._lease.worker_id

    def lose_lease(self, worker_id: UUID) -> Lease | None:
        """Mark that life over and begin the next; None when another thread already did."""
        with self._lock:
            if self._lease.worker_id != worker_id:
                return None
            self._lease.lost.set()
            self._lease = Lease()
            return self._lease

    def holds(self, claim: Claim) -> bool:
        """Say whether the claim belongs to the lease in force."""
        return self._lease.covers(claim)
