"""Wakes the claiming loop: LISTEN on PostgreSQL, the data version on SQLite, both only hints."""

from __future__ import annotations

import threading
import time
from math import inf

import psycopg
from django.db import connection

from jobs.conf import listen_database_url
from jobs.engine.poolers import changes_sessions, is_pooled
from jobs.engine.wakeup import (
    CHANNEL,
    NOTIFY_INTERVAL_SECONDS,
    AnnouncedJob,
    listen_conninfo,
    subscribe,
    unsubscribe,
)
from jobs.execution.events import Event, emit
from jobs.worker.state import AWAY, SharedState

LISTEN_SECONDS = 5.0
DATA_VERSION_SECONDS = 0.1
# Notifications are rate limited, so jobs enqueued just after one are not announced. One more check
# finds them.
RECHECK_SECONDS = NOTIFY_INTERVAL_SECONDS * 1.2

MEND = (
    "LISTEN goes through a pooler, so jobs are only found by polling. Set LISTEN_DATABASE_URL to "
    "a direct address, or to off"
)


class Listener:
    """Waits for hints that there is work."""

    def __init__(self, state: SharedState) -> None:
        self._state = state
        self._woken = threading.Event()
        # When the last hint was taken up (monotonic).
        self._hinted_at = -inf
        self._announced: AnnouncedJob | None = None

    def start(self) -> None:
        """Subscribe to the hints of this process and of others."""
        subscribe(self._woken)
        if connection.vendor == "sqlite":
            self._state.start_thread("listener", self._watch_file)
        elif listen_database_url() != "off":
            self._state.start_thread("listener", self._listen)

    def stop(self) -> None:
        """End the wait that is under way, and unsubscribe."""
        unsubscribe(self._woken)
        self._woken.set()

    def wake(self) -> None:
        """End the wait that is under way."""
        self._woken.set()

    def take_hint(self) -> None:
        """Clear the hint, if there is one: the caller is about to look for the announced work."""
        if self._woken.is_set():
            self._woken.clear()
            self._hinted_at = time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Wait for a hint, at most `seconds`; False if none came, nor was cleared a moment ago."""
        recheck = self._hinted_at + RECHECK_SECONDS - time.monotonic()
        woken = self._woken.wait(min(seconds, recheck) if recheck > 0 else seconds)
        return woken or recheck > 0

    def hear(self, text: str) -> None:
        """Take up a notification with this text, and end the wait that is under way."""
        self._announced = AnnouncedJob.from_text(text)
        self._woken.set()

    def take_announced(self) -> AnnouncedJob | None:
        """Return the job that the last notification named, once."""
        announced, self._announced = self._announced, None
        return announced

    def _watch_file(self) -> None:
        """Watch for commits of others, over this thread's own connection."""
        seen = None
        while not self._state.halt.wait(DATA_VERSION_SECONDS):
            try:
                with connection.cursor() as cursor:
                    cursor.execute("PRAGMA data_version", [])
                    version = cursor.fetchone()[0]
            except AWAY:
                # Polling goes on meanwhile; the claiming thread reports the outage.
                connection.close()
                version = None
            if version != seen:
                seen = version
                self._woken.set()
        connection.close()

    def _listen(self) -> None:
        while not self._state.halt.is_set():
            try:
                with psycopg.connect(listen_conninfo(), autocommit=True) as direct:
                    if is_pooled(direct) and changes_sessions(listen_conninfo()):
                        emit(Event.POOLER_FOUND, mend=MEND)
                        return
                    direct.execute(f"LISTEN {CHANNEL}")
                    self._woken.set()
                    while not self._state.halt.is_set():
                        for notify in direct.notifies(timeout=LISTEN_SECONDS, stop_after=1):
                            self.hear(notify.payload)
            except psycopg.Error:
                # Polling goes on meanwhile; the claiming thread reports the outage.
                self._state.halt.wait(self._state.rng.uniform(0.5, 1.5))
