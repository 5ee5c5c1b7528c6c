"""Tells workers that there is something to claim. A hint only: polling is the truth."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from django.db import connection

CHANNEL = "mailroom_jobs"
# NOTIFY takes a lock on the whole database at commit, so each process is sparing with it.
NOTIFY_INTERVAL_SECONDS = 0.05

_lock = threading.Lock()
_in_process: set[threading.Event] = set()
_last_notified: dict[str, float] = {}


def subscribe(event: threading.Event) -> None:
    """Set `event` whenever this process enqueues something."""
    with _lock:
        _in_process.add(event)


def unsubscribe(event: threading.Event) -> None:
    """Stop setting `event`."""
    with _lock:
        _in_process.discard(event)


def wake(categories: Iterable[str]) -> None:
    """Wake this process's workers and, on PostgreSQL, those of others. Call after the commit."""
    due = []
    with _lock:
        for event in _in_process:
            event.set()
        now = time.monotonic()
        for category in sorted(set(categories)):
            if now - _last_notified.get(category, float("-inf")) >= NOTIFY_INTERVAL_SECONDS:
                _last_notified[category] = now
                due.append(category)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for category in due:
                cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, category])
