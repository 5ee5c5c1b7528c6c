"""One run of a handler, and how to reach it meanwhile."""

from __future__ import annotations

import ctypes
import threading
from abc import ABC, abstractmethod
from enum import StrEnum
from random import Random

from jobs.engine.claim import Claim
from jobs.engine.outcomes import Outcome
from jobs.errors import JobTimeout
from jobs.execution.context import Signals
from jobs.execution.executor import execute, timed_out


class Stop(StrEnum):
    """Why a running handler has to stop."""

    CANCEL = "cancel"
    TIMEOUT = "timeout"
    LEASE_LOST = "lease_lost"


class Attempt(ABC):
    """A handler that runs somewhere; all but `run` may be called from any thread."""

    @abstractmethod
    def run(self) -> Outcome:
        """Run the handler to its end, and say how it ended."""

    @abstractmethod
    def stop(self, why: Stop) -> None:
        """Ask the handler to stop."""

    def kill(self) -> bool:
        """End the handler; False: only the end of this process could."""
        return False


class OnThread(Attempt):
    """A `def` handler on the thread that calls `run`: it stops at its next call of `ctx`."""

    def __init__(self, claim: Claim, signals: Signals, rng: Random) -> None:
        self._claim = claim
        self._signals = signals
        self._rng = rng
        self._thread_id: int | None = None
        self._guard = threading.Lock()

    def run(self) -> Outcome:
        """Run the handler on this thread."""
        outcome: Outcome | None = None
        try:
            self._be_reachable(threading.get_ident())
            outcome = execute(self._claim, rng=self._rng, signals=self._signals)
            self._be_reachable(None)
        except JobTimeout:
            # It came between the handler's end and ours.
            self._be_reachable(None)
        return outcome or timed_out(self._claim, rng=self._rng)

    def stop(self, why: Stop) -> None:
        """Tell the next checkpoint; a timeout does not wait for one."""
        match why:
            case Stop.CANCEL:
                self._signals.cancel_requested.set()
            case Stop.LEASE_LOST:
                self._signals.lease_lost.set()
            case Stop.TIMEOUT:
                self._signals.time_out(self._interrupt)

    def _interrupt(self) -> None:
        with self._guard:
            if self._thread_id is not None:
                _raise_in_thread(self._thread_id)

    def _be_reachable(self, thread_id: int | None) -> None:
        with self._guard:
            self._thread_id = thread_id


def _raise_in_thread(thread_id: int) -> None:
    """Raise JobTimeout in a thread, at its next step of Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread_id), ctypes.py_object(JobTimeout)
    )
