"""Runs one handler, and reaches it while it runs."""

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


class StopReason(StrEnum):
    """Why a running handler has to stop."""

    CANCEL = "cancel"
    TIMEOUT = "timeout"
    LEASE_LOST = "lease_lost"


class Runner(ABC):
    """Runs one handler; all methods but `run` may be called from any thread."""

    @abstractmethod
    def run(self) -> Outcome:
        """Run the handler to its end and return the outcome."""

    @abstractmethod
    def stop(self, reason: StopReason) -> None:
        """Ask the handler to stop."""

    def kill(self) -> bool:
        """End the handler by force; False where that takes the end of this process."""
        return False


class ThreadRunner(Runner):
    """Runs a `def` handler on the calling thread; it stops at its next call of `ctx`."""

    def __init__(self, claim: Claim, signals: Signals, rng: Random) -> None:
        self._claim = claim
        self._signals = signals
        self._rng = rng
        # Set while JobTimeout may be raised there.
        self._thread_id: int | None = None
        self._lock = threading.Lock()

    def run(self) -> Outcome:
        """Run the handler on this thread."""
        outcome: Outcome | None = None
        try:
            self._set_thread_id(threading.get_ident())
            outcome = execute(self._claim, rng=self._rng, signals=self._signals)
            self._set_thread_id(None)
        except JobTimeout:
            # It was raised after the handler had ended.
            self._set_thread_id(None)
        return outcome or timed_out(self._claim, rng=self._rng)

    def stop(self, reason: StopReason) -> None:
        """Signal the handler; a timeout is also raised in its thread."""
        match reason:
            case StopReason.CANCEL:
                self._signals.cancel_requested.set()
            case StopReason.LEASE_LOST:
                self._signals.lease_lost.set()
            case StopReason.TIMEOUT:
                self._signals.time_out(self._interrupt)

    def _interrupt(self) -> None:
        """Raise JobTimeout in the handler's thread, at its next step of Python code."""
        with self._lock:
            if self._thread_id is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread_id), ctypes.py_object(JobTimeout)
                )

    def _set_thread_id(self, thread_id: int | None) -> None:
        with self._lock:
            self._thread_id = thread_id
