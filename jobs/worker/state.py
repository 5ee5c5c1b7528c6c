"""What the threads of one worker share: its lease, the signals to stop, the database's outages."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random, SystemRandom
from typing import Any
from uuid import UUID

from django.db import (
    DEFAULT_DB_ALIAS,
    InterfaceError,
    InternalError,
    OperationalError,
    ProgrammingError,
    close_old_connections,
    connection,
    connections,
)
from uuid_utils.compat import uuid7

from interfaces.database_faults import not_migrated, unusable
from jobs.conf import lease_seconds
from jobs.engine.claim import Claim
from jobs.engine.outcomes import class_path, message_of
from jobs.engine.rollups import Rollups
from jobs.execution.context import Flag
from jobs.execution.events import Event, emit
from jobs.worker.running_slots import RunningSlots
from jobs.worker.turns import Turns

# The lease is trusted for this share of its length, counted from before the request to extend it.
TRUSTED_SHARE = 0.8

FRAMES_TOLD = 3


class Lease:
    """The worker's lease under one id. When it is lost, the worker continues under another."""

    def __init__(self) -> None:
        self.worker_id: UUID = uuid7()
        self.lost = Flag()
        self._trusted_until = 0.0

    def extended(self, requested_at: float) -> None:
        """Note that the database extended the lease, on a request sent at this monotonic time."""
        self._trusted_until = requested_at + lease_seconds() * TRUSTED_SHARE

    def covers(self, claim: Claim) -> bool:
        """Say whether the claim was made under this lease."""
        # Identity is checked first, because comparing ids by value takes as long as anything else
        # that is done for a short job.
        return claim.worker_id is self.worker_id or claim.worker_id == self.worker_id

    def trusted_at(self, moment: float) -> bool:
        """Say whether the lease surely still holds at this time of the monotonic clock."""
        return moment < self._trusted_until

    @property
    def trusted(self) -> bool:
        """Whether the lease surely still holds now."""
        return self.trusted_at(time.monotonic())


class SharedState:
    """Shared by the threads of one worker process."""

    def __init__(self, slots: RunningSlots | None = None) -> None:
        self.rng: Random = SystemRandom()
        self.slots = slots or RunningSlots.private(0)
        self.rollups = Rollups()
        self.turns = Turns()
        # As an operator asks: `quiet`: claim nothing for now. `draining`: end, however long it takes.
        self.quiet = threading.Event()
        self.draining = threading.Event()
        # `stopping`: claim nothing more. `halt`: the threads end.
        self.stopping = threading.Event()
        self.halt = threading.Event()
        # Set if a handler can only be ended together with the process.
        self.stuck = threading.Event()
        # Set if one of the worker's own threads raised: the process must not go on.
        self.broken = threading.Event()
        self._lease = Lease()
        self._lock = threading.Lock()

    def start_thread(self, name: str, work: Callable[[], None]) -> None:
        """Run `work` on a thread; if it raises, the worker is broken and ends."""

        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - whatever it was, the thread is gone
                self.break_by(error, name)

        threading.Thread(target=run, name=name, daemon=True).start()

    def break_by(self, error: BaseException, thread: str) -> None:
        """End the worker; for a mistake in code or schema for good, as another would end too."""
        mistake = is_mistake(error)
        why: dict[str, str] = {}
        if mistake:
            # What the database says of a statement names columns and indexes, never values.
            why["error"] = not_migrated(error) or message_of(error)
        elif isinstance(error, OSError) and error.errno:
            # The system's own words, as "Too many open files": the error's may name anything.
            why["error"] = os.strerror(error.errno)
        emit(
            Event.WORKER_BROKEN,
            thread=thread,
            error_class=class_path(error),
            where=_where(error),
            **why,
        )
        if mistake:
            self.slots.end_for_mistake()
        self.broken.set()
        self.stopping.set()

    @property
    def lease(self) -> Lease:
        """The lease in force."""
        return self._lease

    @property
    def worker_id(self) -> UUID:
        """The worker's id under the lease in force."""
        return self._lease.worker_id

    def replace_lease(self, lost: Lease) -> Lease | None:
        """Mark the lease lost and return the next one; None if another thread already did."""
        with self._lock:
            if self._lease is not lost:
                return None
            lost.lost.set()
            self._lease = Lease()
            return self._lease


# PostgreSQL raises an internal error when it refuses writes because it is read-only, as a standby
# is before it takes over, and for faults of its own. A wrong statement never raises one.
AWAY = (OperationalError, InterfaceError, InternalError)
# The beginnings of what SQLite says of a statement that it can never run.
MISTAKES = ("no query solution", "no such ", "near ", "incomplete input", "ambiguous column")
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 3.0
# After an outage a worker must send a heartbeat before others may consider its lease expired.
LONGEST_PAUSE_PER_LEASE = 0.25


def is_mistake(error: BaseException) -> bool:
    """Say whether the database refuses the statement itself, so that no repeat can succeed."""
    if isinstance(error, OperationalError) and connection.vendor == "sqlite":
        return str(error).startswith(MISTAKES)
    return isinstance(error, ProgrammingError)


class Outage:
    """Backs off with jitter while the database is away; one per thread."""

    def __init__(self, rng: Random, stop: threading.Event) -> None:
        self._rng = rng
        self._stop = stop
        self._failures = 0

    def failed(self, error: Exception) -> None:
        """Drop the broken connection and pause; the first failure is logged.

        Raises:
            OperationalError: the database is there, and refuses the statement itself.
        """
        if is_mistake(error):
            raise error
        if self._failures == 0:
            emit(
                Event.DATABASE_AWAY,
                error_class=type(error).__name__,
                error=unusable(error) or message_of(error),
            )
        connection.close()
        pause = min(
            FIRST_PAUSE_SECONDS * 2 ** min(self._failures, 6),
            LONGEST_PAUSE_SECONDS,
            LONGEST_PAUSE_PER_LEASE * lease_seconds(),
        )
        self._failures += 1
        self._stop.wait(pause * self._rng.uniform(0.5, 1.5))

    def over(self) -> None:
        """Note that the database answered, unless nothing was asked of it.

        An answer does not count while the database is read-only, because it takes no writes then.
        """
        if self._failures and connection.connection is not None and not _is_read_only():
            self._failures = 0
            emit(Event.DATABASE_BACK)


def _is_read_only() -> bool:
    """Say whether the database takes no writes, or does not answer."""
    if connection.vendor != "postgresql":
        return False
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW transaction_read_only")
            return bool(cursor.fetchone()[0] == "on")
    except AWAY:
        return True


def refresh_connection(*, ask: bool = False) -> None:
    """Replace a connection that broke or is too old; call between units of work.

    With `ask` Django checks the connection before the next statement. That is for handlers, to
    which a broken connection costs an attempt; the worker's own threads just try again.
    """
    close_old_connections()
    connection.health_check_done = not ask  # type: ignore[attr-defined]  # the stubs lack it


def refresh_own_connection() -> None:
    """As `refresh_connection`, for the worker's own threads, which run no foreign code.

    On SQLite the connection is kept as long as it works on the same file: to open one takes as long as
    a hundred short jobs.
    """
    if not _is_of_same_file():
        refresh_connection()


def _is_of_same_file() -> bool:
    database: Any = connections[DEFAULT_DB_ALIAS]
    if database.vendor != "sqlite" or database.connection is None or database.errors_occurred:
        return False
    try:
        status = Path(database.settings_dict["NAME"]).stat()
    except OSError:
        return False
    found = database.connection, status.st_dev, status.st_ino
    kept = database.__dict__.get("engine_file")
    if kept is None or kept[0] is not database.connection:
        kept = database.engine_file = found
    return bool(kept == found)


def _where(error: BaseException) -> str:
    """Return the innermost calls that the error came through, without a value of any."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES_TOLD:]
    calls = (f"{frame.name} ({Path(frame.filename).name}:{frame.lineno})" for frame in frames)
    return ", ".join(calls)
