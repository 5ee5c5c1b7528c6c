"""How a worker's threads survive a database outage."""

from __future__ import annotations

import threading
from random import Random

from django.db import InterfaceError, OperationalError, close_old_connections, connection

from jobs.conf import lease_seconds
from jobs.execution.events import Event, emit

AWAY = (OperationalError, InterfaceError)
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 3.0
# After an outage a worker must send a heartbeat before others may consider its lease expired.
LONGEST_PAUSE_PER_LEASE = 0.25


class Outage:
    """Backs off with jitter while the database is away; one per thread."""

    def __init__(self, rng: Random, stop: threading.Event) -> None:
        self._rng = rng
        self._stop = stop
        self._failures = 0

    def failed(self, error: Exception) -> None:
        """Drop the broken connection and pause; the first failure is logged."""
        if self._failures == 0:
            emit(Event.DATABASE_AWAY, error_class=type(error).__name__)
        connection.close()
        pause = min(
            FIRST_PAUSE_SECONDS * 2 ** min(self._failures, 6),
            LONGEST_PAUSE_SECONDS,
            LONGEST_PAUSE_PER_LEASE * lease_seconds(),
        )
        self._failures += 1
        self._stop.wait(pause * self._rng.uniform(0.5, 1.5))

    def over(self) -> None:
        """Note that the database answered."""
        if self._failures:
            self._failures = 0
            emit(Event.DATABASE_BACK)


def refresh_connection(*, ask: bool = False) -> None:
    """Replace a connection that broke or is too old; call between units of work.

    With `ask` Django checks the connection before the next statement. That is for handlers, to
    which a broken connection costs an attempt; the worker's own threads just try again.
    """
    close_old_connections()
    connection.health_check_done = not ask  # type: ignore[attr-defined]  # the stubs lack it
