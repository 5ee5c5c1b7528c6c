"""The queue's clock, stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta

from jobs.engine.clock import database_now, stopped_at


class Clock:
    """The time that the queue reads; it changes only when it is moved."""

    def __init__(self, moment: datetime, exits: ExitStack) -> None:
        self._exits = exits
        self.now = moment
        self.move_to(moment)

    def tick(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0) -> None:
        """Move the clock forward; negative values move it back."""
        self.move_to(self.now + timedelta(seconds=seconds, minutes=minutes, hours=hours))

    def move_to(self, moment: datetime | str) -> None:
        """Set the clock to an aware time (text is ISO 8601)."""
        moment = _read(moment)
        self._exits.enter_context(stopped_at(moment))
        self.now = moment


@contextmanager
def frozen_time(moment: datetime | str | None = None) -> Iterator[Clock]:
    """Stop the queue's clock at an aware time (text is ISO 8601), by default at the present.

    The queue's clock is the database's, as the queue reads it: for due times, backoff, leases,
    locks, limits and all times it writes. Python's clock, and other tables, are not affected.

    Raises:
        ValueError: the time is not aware, or not ISO 8601.
    """
    with ExitStack() as exits:
        yield Clock(database_now() if moment is None else _read(moment), exits)


def _read(moment: datetime | str) -> datetime:
    """Return the time."""
    read: object = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    if not isinstance(read, datetime) or read.tzinfo is None:
        raise ValueError(f"the clock takes an aware time such as 2026-03-29T00:59Z, not {moment}")
    return read
