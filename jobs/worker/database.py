"""How a worker's threads live with a database that comes and goes."""

from __future__ import annotations

import threading
from random import Random

from django.db import InterfaceError, OperationalError, close_old_connections, connection

from jobs.conf import lease_seconds
from jobs.execution.events import Event, emit

AWAY = (OperationalError, InterfaceError)
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 3.0
# Whoever is back after an outage has to report before the others may take its lease to be over.
LONGEST_PAUSE_PER_LEASE = 0.25


class Outage:
    """Backs off with jitter while the database is away; one per thread."""

    def __init__(self, rng: Random, stop: threading.Event) -> None:
        self._rng = rng
        self._stop = stop
        self._failures = 0

    @property
    def ongoing(self) -> bool:
        """Whether the last attempt failed."""
        return self._failures > 0

    def failed(self, error: Exception) -> None:
        """Drop the broken connection and pause; say so once."""
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

    With `ask` the next statement on it is preceded by a question whether it still stands. That is
    for handlers, which would pay with an attempt; the worker's own threads just try again.
    """
    close_old_connections()
    connection.health_check_done = not ask  # type: ignore[attr-defined]  # the stubs lack it
