"""How the worker reaches a running handler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock


@dataclass
class Signals:
    """Set by the worker, seen by the handler at its next call of `ctx`."""

    lease_lost: Event = field(default_factory=Event)
    cancel_requested: Event = field(default_factory=Event)
    timed_out: Event = field(default_factory=Event)
    _shields: int = field(default=0, init=False)
    _guard: Lock = field(default_factory=Lock, init=False)

    def time_out(self, interrupt: Callable[[], object]) -> None:
        """Note that the time is over; interrupt the handler unless it is shielded just now."""
        self.timed_out.set()
        with self._guard:
            if not self._shields:
                interrupt()

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Keep a timeout from interrupting the block; who leaves it looks at `timed_out`."""
        with self._guard:
            self._shields += 1
        try:
            yield
        finally:
            with self._guard:
                self._shields -= 1
