"""The queue's clock, stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta

from jobs.engine.database_time import database_now
from jobs.engine.frozen_time import stopped_at


class Clock:
    """The time the queue sees; it stands until it is moved."""

    def __init__(self, moment: datetime, stops: ExitStack) -> None:
        self._stops = stops
        self.now = moment
        self.move_to(moment)

    def tick(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0) -> None:
        """Let so much time pass; negative values turn the clock back."""
        self.move_to(self.now + timedelta(seconds=seconds, minutes=minutes, hours=hours))

    def move_to(self, moment: datetime) -> None:
        """Set the clock to an aware time."""
        self._stops.enter_context(stopped_at(moment))
        self.now = moment


@contextmanager
def frozen_time(moment: datetime | str | None = None) -> Iterator[Clock]:
    """Stop the queue's clock at an aware time (ISO 8601 as text), or where it stands.

    That is the database's time as the queue reads it: what is due, backoff, leases, locks, limits
    and the times it writes. Python's clock runs on, and so does the database's for other tables.

    Raises:
        ValueError: the time is not aware, or not ISO 8601.
    """
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    with ExitStack() as stops:
        yield Clock(moment or database_now(), stops)
