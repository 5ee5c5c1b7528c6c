"""The running handlers, and the note in the worker's row that names the jobs that may run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from uuid import UUID

from jobs.engine.claim import Claim
from jobs.engine.lease import note_running
from jobs.engine.owner import look_up_owners
from jobs.models.base import pack_ids
from jobs.worker.eventloop import EventLoop, EventLoopRunner
from jobs.worker.state import AWAY, Outage, SharedState
from jobs.worker.threads import Batch, Runner, StopReason

# A handler that still runs this long after it was told to stop is ended by force.
INTERRUPT_SECONDS = 10.0
# Shorter jobs go from claimed to completed directly: one write less.
PROCESSING_AFTER_SECONDS = 0.05
BLOCKED = "the handler blocked the event loop: use await in it, or declare it with def"


class StartNotes:
    """Names in the worker's row the jobs that were started and are not settled.

    They are recorded before they start: if the worker dies with its whole host, their attempts
    count, and those of its other claims do not. `unsettled` returns those of some claims whose
    outcomes wait to be stored.
    """

    def __init__(
        self, state: SharedState, unsettled: Callable[[Sequence[Claim]], list[Claim]]
    ) -> None:
        self._state = state
        self._unsettled = unsettled
        self._batches: dict[Batch, None] = {}
        self._ended: dict[Batch, None] = {}
        self._writing = threading.Lock()

    def add(self, batch: Batch) -> None:
        """Add a batch that is going to start."""
        self._batches[batch] = None

    def remove(self, batch: Batch) -> None:
        """Remove a batch that has ended, once it is settled."""
        self._ended[batch] = None
        self._batches.pop(batch, None)

    @property
    def claims(self) -> list[Claim]:
        """The claims of the batches that have not ended."""
        return [claim for batch in list(self._batches) for claim in batch.claims]

    def look_up_owners(self, claims: Sequence[Claim]) -> None:
        """Look up the owners of claims that start without a note; if it fails, their threads do."""
        with suppress(*AWAY):
            look_up_owners(claims)

    def record_before_start(self, claims: Sequence[Claim]) -> bool:
        """Write the note with these claims, waiting out outages; False if the lease is lost."""
        outage = Outage(self._state.rng, self._state.halt)
        while not self._state.halt.is_set():
            lease = self._state.lease
            if not all(lease.covers(claim) for claim in claims):
                return False
            try:
                look_up_owners(claims)
                recorded = self.write(lease.worker_id)
                outage.over()
            except AWAY as error:
                outage.failed(error)
            else:
                return recorded
        return False

    def write(self, worker_id: UUID) -> bool:
        """Write the note to this worker's row; return False if the worker was marked dead.

        Raises:
            DatabaseError: it may have been written or not.
        """
        with self._writing:
            # Running batches come first, so that one that ends in between is named by both.
            ids = [batch.packed_ids for batch in list(self._batches)]
            for batch in list(self._ended):
                if left := self._unsettled(batch.claims):
                    ids.append(pack_ids(claim.job_id for claim in left))
                else:
                    del self._ended[batch]
            return note_running(worker_id, b"".join(ids))


class RunningHandlers:
    """The handlers that run now; notifies `changed` when some are found to be stuck.

    Threads add and remove their own without a lock, in one step each. So a runner may be stopped
    when its handler has just ended, which each kind of runner must allow.
    """

    def __init__(
        self, lock: threading.RLock, changed: threading.Condition, event_loop: EventLoop
    ) -> None:
        # By lease token, which is unique to a claim.
        self._running: dict[int, Runner] = {}
        self._lock = lock
        self._changed = changed
        self._event_loop = event_loop

    def all(self) -> list[Runner]:
        """Return the handlers that run now."""
        return list(self._running.values())

    @property
    def stuck(self) -> int:
        """The number of handlers that can only be ended together with this process."""
        return sum(one.stuck for one in self.all())

    def add(self, one: Runner) -> None:
        """Add a handler that starts now."""
        self._running[one.claim.lease_token] = one

    def remove(self, one: Runner) -> None:
        """Remove a handler that ended."""
        self._running.pop(one.claim.lease_token, None)

    def cancel(self, job_ids: Collection[UUID]) -> None:
        """Ask the handlers of these canceled jobs to stop, once."""
        for one in self.all():
            if one.claim.job_id in job_ids and not one.canceled:
                one.canceled = True
                one.stop(StopReason.CANCEL)

    def stop_all(self) -> None:
        """Tell every handler that the worker has lost its job."""
        for one in self.all():
            one.stop(StopReason.LEASE_LOST)

    def interrupt_overdue(self) -> list[Runner]:
        """Interrupt handlers past their deadline; return those that have newly proved stuck."""
        now = time.monotonic()
        blocking = self._event_loop.blocking_task()
        with self._lock:
            watched = [one for one in self.all() if not one.stuck]
            for one in watched:
                if now >= one.deadline and not one.interrupted:
                    one.interrupted = True
                    one.stop(StopReason.TIMEOUT)
                elif one.interrupted and now >= one.deadline + INTERRUPT_SECONDS:
                    one.stuck = not one.kill()
                if blocking is not None and isinstance(one, EventLoopRunner):
                    # All handlers on the loop are stuck; only the one that blocks it is at fault.
                    one.stuck = True
                    if one.owns(blocking):
                        one.interrupted = True
                        one.error = BLOCKED
            stuck = [one for one in watched if one.stuck and one.claim.lease_token in self._running]
            if stuck:
                self._changed.notify_all()
            return [one for one in stuck if one.interrupted]
