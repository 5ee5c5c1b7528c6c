"""What the threads of one worker share: its lease, and the signals to stop."""

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

# The lease is trusted for this share of its length, counted from before the request to extend it.
TRUSTED_SHARE = 0.8


class Lease:
    """The worker's lease under one id. When it is lost, the worker goes on under another."""

    def __init__(self) -> None:
        self.worker_id: UUID = uuid7()
        self.lost = Flag()
        self._trusted_until = 0.0

    def extended(self, requested_at: float) -> None:
        """Note that the database extended it, on a request sent at this monotonic time."""
        self._trusted_until = requested_at + lease_seconds() * TRUSTED_SHARE

    def covers(self, claim: Claim) -> bool:
        """Say whether the claim was made under it."""
        # Comparing ids by value takes as long as anything else that is done for a short job.
        return claim.worker_id is self.worker_id or claim.worker_id == self.worker_id

    @property
    def trusted(self) -> bool:
        """Whether it surely still holds, by this machine's monotonic clock."""
        return time.monotonic() < self._trusted_until


class SharedState:
    """Shared by the threads of one worker process."""

    def __init__(self) -> None:
        self.rng: Random = SystemRandom()
        # `stopping`: claim nothing more. `halt`: the threads end.
        self.stopping = threading.Event()
        self.halt = threading.Event()
        # A handler can only be ended together with the process.
        self.stuck = threading.Event()
        # One of the worker's own threads raised: the process must not go on.
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
        """The worker's id under the lease in force."""
        return self._lease.worker_id

    def replace_lease(self, lost: Lease) -> Lease | None:
        """Mark the lease lost and return the next one; None if another thread already did."""
        with self._lock:
            if self._lease is not lost:
                return None
            lost.lost.set()
            self._lease = Lease()
            return self._lease
