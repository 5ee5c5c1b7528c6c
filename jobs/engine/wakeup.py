"""Notifies workers that there may be work, and waiting callers that their job is settled.

Notifications only save time: what they announce is found by polling too.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from uuid import UUID

from django.db import connection
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from jobs.conf import listen_database_url

CHANNEL = "mailroom_jobs"
# NOTIFY takes a lock on the whole database at commit, so each process limits its rate.
NOTIFY_INTERVAL_SECONDS = 0.02
# A statement about to run may notify this much earlier, so that no second one has to right after.
NOTIFY_AHEAD_SECONDS = 0.005
# Timeouts that LISTEN_DATABASE_URL does not set are taken from the main database.
TIMEOUTS = ("connect_timeout", "tcp_user_timeout", "keepalives_idle", "keepalives_interval")
# Id, firm, priority, category and type. No firm's id has more digits than these.
ANNOUNCEMENT = re.compile(
    r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) ([0-9]{1,18}) ([0-9]) (\S+) (\S+)"
)

_lock = threading.Lock()
_in_process: set[threading.Event] = set()
_last_notified: dict[str, float] = {}
_awaiting: dict[UUID, list[Callable[[], object]]] = {}


class AnnouncedJob(NamedTuple):
    """A job that a notification names."""

    job_id: UUID
    firm_id: int
    priority: int
    category: str
    job_type: str

    def to_text(self) -> str:
        """Return the text of its notification."""
        return f"{self.job_id} {self.firm_id} {self.priority} {self.category} {self.job_type}"

    @classmethod
    def from_text(cls, text: str) -> AnnouncedJob | None:
        """Return the job that a notification names; None if it only says that there is work.

        Anybody who may connect can notify, so a text of another form is only a hint.
        """
        named = ANNOUNCEMENT.fullmatch(text)
        if named is None:
            return None
        job_id, firm_id, priority, category, job_type = named.groups()
        return cls(UUID(job_id), int(firm_id), int(priority), category, job_type)

    def is_served_by(self, categories: Collection[str], job_types: Collection[str]) -> bool:
        """Say whether a worker of these categories and types may claim it; empty means all."""
        return (not categories or self.category in categories) and (
            not job_types or self.job_type in job_types
        )


def subscribe(event: threading.Event) -> None:
    """Set `event` whenever this process enqueues a job."""
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
        due = [category for category in sorted(set(categories)) if notify_is_due(category)]
        for category in due:
            note_notify(category, time.monotonic())
    if due and connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for category in due:
                cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, category])


def notify_sql() -> str:
    """Return a table of one row for a FROM clause, with the text to send as its parameter.

    On PostgreSQL it notifies the workers of other processes once its statement is committed.
    """
    return f"(SELECT pg_notify('{CHANNEL}', %s::text) OFFSET 0) AS notified"


def notify_is_due(category: str, *, ahead: float = 0.0) -> bool:
    """Say whether this process may notify a category's workers, now or in `ahead` seconds."""
    notified_at = _last_notified.get(category)
    return notified_at is None or time.monotonic() + ahead - notified_at >= NOTIFY_INTERVAL_SECONDS


def note_notify(category: str, moment: float) -> None:
    """Note that workers were notified at this moment (of `time.monotonic`)."""
    _last_notified[category] = moment


@contextmanager
def on_settled(job_id: UUID, callback: Callable[[], object]) -> Iterator[None]:
    """Call `callback`, from any thread, if this process settles the job within the block."""
    with _lock:
        _awaiting.setdefault(job_id, []).append(callback)
    try:
        yield
    finally:
        with _lock:
            _awaiting[job_id].remove(callback)
            if not _awaiting[job_id]:
                del _awaiting[job_id]


def notify_settled(job_ids: Iterable[UUID]) -> None:
    """Call the callbacks of this process that wait for these jobs. Call after the commit."""
    with _lock:
        if not _awaiting:
            return
        for job_id in job_ids:
            for callback in _awaiting.get(job_id, ()):
                callback()


def listen_conninfo() -> str:
    """Return the address for LISTEN, past any pooler: LISTEN_DATABASE_URL, or the main database."""
    url = listen_database_url()
    if not url:
        return main_conninfo()
    params = connection.get_connection_params()
    timeouts = {name: params[name] for name in TIMEOUTS if name in params}
    return make_conninfo(**{**timeouts, **conninfo_to_dict(url)})


def main_conninfo() -> str:
    """Return the address of the main database, with every connection option of DATABASE_URL."""
    names = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    params = connection.get_connection_params()
    return make_conninfo(**{name: params[name] for name in names & params.keys() if params[name]})
