"""How a worker signals a running handler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock


class Flag:
    """An event that nobody waits for; a threading.Event would cost a lock per job."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        """Set it."""
        self._set = True

    def is_set(self) -> bool:
        """Say whether it is set."""
        return self._set


class Signals:
    """Flags that the worker sets and the handler reads at its next call of `ctx`."""

    __slots__ = ("_lock", "_shields", "cancel_requested", "lease_lost", "timed_out")

    def __init__(self, lease_lost: Flag | None = None) -> None:
        self.lease_lost = lease_lost or Flag()
        self.cancel_requested = Flag()
        self.timed_out = Flag()
        self._shields = 0
        self._lock = Lock()

    def time_out(self, interrupt: Callable[[], object]) -> None:
        """Set `timed_out`; interrupt the handler unless it is shielded."""
        self.timed_out.set()
        with self._lock:
            if not self._shields:
                interrupt()

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Keep a timeout from interrupting the block; the caller checks `timed_out` afterwards."""
        with self._lock:
            self._shields += 1
        try:
            yield
        finally:
            with self._lock:
                self._shields -= 1
