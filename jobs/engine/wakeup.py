"""Tells workers that there is something to claim, and who waits for a job that it is settled.

Hints only: polling is the truth.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from uuid import UUID

from django.db import connection

CHANNEL = "mailroom_jobs"
# NOTIFY takes a lock on the whole database at commit, so each process is sparing with it.
NOTIFY_INTERVAL_SECONDS = 0.02
# A statement that is about to run tells so much earlier: after it, a trip of its own would.
TELL_AHEAD_SECONDS = 0.005

_lock = threading.Lock()
_in_process: set[threading.Event] = set()
_last_notified: dict[str, float] = {}
_awaiting: dict[UUID, list[Callable[[], object]]] = {}


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
    with _lock:
        for event in _in_process:
            event.set()
        untold = [category for category in sorted(set(categories)) if is_due(category)]
        for category in untold:
            note_told(category, time.monotonic())
    if untold and connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for category in untold:
                cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, category])


def tell_sql(alias: str) -> str:
    """Return a table of one row for a FROM clause, with the category as its parameter.

    On PostgreSQL it tells the workers of other processes, once its statement is committed.
    """
    return f"(SELECT pg_notify('{CHANNEL}', %s::text) OFFSET 0) AS {alias}"


def is_due(category: str, *, ahead: float = 0.0) -> bool:
    """Say whether workers elsewhere were told of this category too long ago, or will be `ahead`."""
    told_at = _last_notified.get(category)
    return told_at is None or time.monotonic() + ahead - told_at >= NOTIFY_INTERVAL_SECONDS


def note_told(category: str, moment: float) -> None:
    """Note that they were told after this moment (of `time.monotonic`)."""
    _last_notified[category] = moment


@contextmanager
def told_of(job_id: UUID, tell: Callable[[], object]) -> Iterator[None]:
    """Call `tell`, inside the block, when this process settles the job; from whatever thread."""
    with _lock:
        _awaiting.setdefault(job_id, []).append(tell)
    try:
        yield
    finally:
        with _lock:
            _awaiting[job_id].remove(tell)
            if not _awaiting[job_id]:
                del _awaiting[job_id]


def tell_settled(job_ids: Iterable[UUID]) -> None:
    """Tell who waits for these jobs in this process. Call after the commit."""
    with _lock:
        if not _awaiting:
            return
        for job_id in job_ids:
            for tell in _awaiting.get(job_id, ()):
                tell()
