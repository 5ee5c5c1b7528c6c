"""The handlers that run now, and how they are made to end."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from jobs import registry
from jobs.engine.claim import Claim
from jobs.worker.attempts import Attempt, Stop
from jobs.worker.eventloop import EventLoop, OnLoop

# A handler that still runs this long after it was told to stop has to be ended from outside.
INTERRUPT_SECONDS = 10.0
# Shorter jobs go from claimed to completed directly: one write less.
PROCESSING_AFTER_SECONDS = 0.05
BLOCKED = "kept the event loop from turning: await in it, or declare it with def"


@dataclass(slots=True)
class Running:
    """A started handler; times are of the monotonic clock.

    `mark_at`: when to set `processing`. `interrupted`: told to stop for being overdue, or to blame
    for what `blame` says. `stuck`: it can only be ended with this process.
    """

    claim: Claim
    attempt: Attempt
    since: float
    deadline: float
    mark_at: float
    canceled: bool = False
    interrupted: bool = False
    stuck: bool = False
    blame: str = ""


class RunningHandlers:
    """Keeps the list under `lock`; notifies `changed` when nobody need wait for some of them.

    Attempts are stopped under it too: a suspect's process may run another job the moment after.
    """

    def __init__(
        self, lock: threading.RLock, changed: threading.Condition, event_loop: EventLoop
    ) -> None:
        # By lease token, of which every claim has its own.
        self._running: dict[int, Running] = {}
        self._lock = lock
        self._changed = changed
        self._event_loop = event_loop

    def __call__(self) -> list[Running]:
        """Return them."""
        with self._lock:
            return list(self._running.values())

    @property
    def stuck(self) -> int:
        """How many can only be ended with this process."""
        with self._lock:
            return sum(one.stuck for one in self._running.values())

    def add(self, claim: Claim, attempt: Attempt) -> Running:
        """Note that the handler starts now."""
        declared = registry.find(claim.job_type)
        seconds = declared.timeout_seconds if declared else float("inf")
        now = time.monotonic()
        one = Running(claim, attempt, now, now + seconds, now + PROCESSING_AFTER_SECONDS)
        with self._lock:
            self._running[claim.lease_token] = one
        return one

    def remove(self, one: Running) -> None:
        """Note that the handler ended."""
        with self._lock:
            self._running.pop(one.claim.lease_token, None)

    def cancel(self, job_ids: Collection[UUID]) -> None:
        """Ask the handlers of these jobs to stop: somebody canceled them."""
        with self._lock:
            for one in self._running.values():
                if one.claim.job_id in job_ids and not one.canceled:
                    one.canceled = True
                    one.attempt.stop(Stop.CANCEL)

    def disown(self) -> None:
        """Tell every handler that its job is no longer this worker's."""
        with self._lock:
            for one in self._running.values():
                one.attempt.stop(Stop.LEASE_LOST)

    def interrupt_overdue(self) -> list[Running]:
        """Interrupt handlers past their deadline; return those newly found to be stuck by fault."""
        now = time.monotonic()
        blocking = self._event_loop.blocking_task()
        with self._lock:
            watched = [one for one in self._running.values() if not one.stuck]
            for one in watched:
                if now >= one.deadline and not one.interrupted:
                    one.interrupted = True
                    one.attempt.stop(Stop.TIMEOUT)
                elif one.interrupted and now >= one.deadline + INTERRUPT_SECONDS:
                    one.stuck = not one.attempt.kill()
                if blocking is not None and isinstance(one.attempt, OnLoop):
                    _strand(one, one.attempt.owns(blocking))
            stuck = [one for one in watched if one.stuck]
            if stuck:
                self._changed.notify_all()
            return [one for one in stuck if one.interrupted]


def _strand(one: Running, at_fault: bool) -> None:
    """Note that the handler is on a loop that does not turn, and whether that is its own fault."""
    one.stuck = True
    if at_fault:
        one.interrupted = True
        one.blame = BLOCKED
