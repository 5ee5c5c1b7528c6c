"""When a schedule is due: its slots, by cron expression or interval. Uses no database.

A slot is an instant. The slots depend on the timetable alone, not on the moment of asking. In zones
with summer time, cron expressions behave as in Debian's cron: a time of day that the clock skips
runs once, at the first minute after the gap; a time that comes twice runs the first time only.
Expressions whose minute or hour begins with `*` follow real time: they run in both hours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

CRON_FIELDS = 5
MAX_CRON_LENGTH = 100
# A hundred years, as everywhere: later times exceed the calendars of databases.
MAX_INTERVAL_SECONDS = 100 * 366 * 86_400

# How far back the latest slot is searched for, in turn: frequent slots are found by a short search,
# so that no search has to pass many.
_SEARCH_BACK = (
    timedelta(hours=1),
    timedelta(days=1),
    timedelta(days=32),
    timedelta(days=366),
)

# No zone changes its clock twice within this time.
_LARGEST_STEP = timedelta(days=2)


class TimetableInvalid(ValueError):
    """A timetable that cannot be used; `field` names the part that is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class Timetable:
    """Slots by a cron expression of five fields in a zone, or by an interval in seconds.

    An interval is counted from slot to slot, so that late runs do not shift it.

    Raises:
        TimetableInvalid: both or neither are given, or one cannot be read.
    """

    cron: str | None
    interval_seconds: int | None
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        check_time_zone(self.time_zone)
        if (self.cron is None) == (self.interval_seconds is None):
            raise TimetableInvalid("cron", "give either a cron expression or an interval")
        if self.cron is not None:
            self._check_cron(self.cron)
        elif not 1 <= (self.interval_seconds or 0) <= MAX_INTERVAL_SECONDS:
            message = f"must be from 1 to {MAX_INTERVAL_SECONDS:,} seconds"
            raise TimetableInvalid("interval_seconds", message)

    @cached_property
    def zone(self) -> ZoneInfo:
        """The zone whose clock the cron expression names."""
        return ZoneInfo(self.time_zone)

    def first_after(self, moment: datetime, *, anchor: datetime | None = None) -> datetime:
        """Return the first slot after `moment`, in UTC.

        For an interval, `anchor` is any of its slots. Without one, the first slot is a whole
        interval after `moment`.

        Raises:
            TimetableInvalid: there is none in fifty years.
        """
        if self.interval_seconds is not None:
            start = moment.replace(microsecond=0) if anchor is None else anchor
            steps = (moment - start) // timedelta(seconds=self.interval_seconds) + 1
            return start + timedelta(seconds=self.interval_seconds) * steps
        for slot in self._slots_after(moment):
            return slot
        raise TimetableInvalid("cron", "names a day that never comes")

    def latest(self, first: datetime, now: datetime) -> datetime:
        """Return the last slot that is not after `now`; `first` is a slot, and not after it."""
        if self.interval_seconds is not None:
            interval = timedelta(seconds=self.interval_seconds)
            return first + (now - first) // interval * interval
        for back in _SEARCH_BACK:
            if now - first > back and (found := self._last_between(now - back, now)):
                return found
        return self._last_between(first, now) or first

    def upcoming(self, first: datetime, count: int) -> list[datetime]:
        """Return `first`, a slot, and those that follow it: `count` in all."""
        slots = [first]
        while len(slots) < count:
            slots.append(self.first_after(slots[-1], anchor=first))
        return slots

    def in_words(self) -> str:
        """Return the timetable in plain English."""
        if self.interval_seconds is not None:
            return f"Every {_span(self.interval_seconds)}"
        words: str = CronSim(self.cron or "", datetime.now(UTC)).explain()
        return words if self.time_zone == "UTC" else f"{words}, {self.time_zone}"

    def _slots_after(self, moment: datetime) -> Iterator[datetime]:
        minute, hour = (self.cron or "").split()[:2]
        in_real_time = minute.startswith("*") or hour.startswith("*")
        slots = self._real_time_slots if in_real_time else self._time_of_day_slots
        return slots(moment.astimezone(UTC))

    def _real_time_slots(self, moment: datetime) -> Iterator[datetime]:
        """Yield every instant at which the zone's clock shows a matching time."""
        last, start = moment, self._local(moment)
        while True:
            offset = self._offset(last)
            for local in CronSim(self.cron or "", start):
                slot = local.replace(tzinfo=UTC) - offset
                change = self._change_between(last, slot)
                if change is not None:
                    break
                last = slot
                yield slot
            else:
                return
            # What the clock shows at the change itself may match, too.
            last, start = change, self._local(change) - timedelta(seconds=1)

    def _time_of_day_slots(self, moment: datetime) -> Iterator[datetime]:
        """Yield each matching time once: the first of two, the end of the gap for a skipped one."""
        last = moment
        for local in CronSim(self.cron or "", self._local(moment)):
            slot = local.replace(tzinfo=self.zone).astimezone(UTC)
            if self._local(slot) != local:
                # The old offset puts a skipped time after the change; the new one puts it before.
                before = local.replace(tzinfo=self.zone, fold=1).astimezone(UTC)
                slot = self._change_between(before, slot) or slot
            if slot > last:
                last = slot
                yield slot

    def _local(self, moment: datetime) -> datetime:
        """Return what the zone's clock shows."""
        return moment.astimezone(self.zone).replace(tzinfo=None, fold=0)

    def _offset(self, moment: datetime) -> timedelta:
        return moment.astimezone(self.zone).utcoffset() or timedelta()

    def _change_between(self, start: datetime, end: datetime) -> datetime | None:
        """Return when the zone's clock is first changed after `start` and not after `end`."""
        offset = self._offset(start)
        stop = min(start + _LARGEST_STEP, end)
        while self._offset(stop) == offset:
            if stop >= end:
                return None
            start, stop = stop, min(stop + _LARGEST_STEP, end)
        while stop - start > timedelta(seconds=1):
            middle = start + (stop - start) // 2
            if self._offset(middle) == offset:
                start = middle
            else:
                stop = middle
        return stop.replace(microsecond=0)

    def _last_between(self, start: datetime, end: datetime) -> datetime | None:
        """Return the last slot after `start` and not after `end`."""
        last = None
        for slot in takewhile(lambda slot: slot <= end, self._slots_after(start)):
            last = slot
        return last

    def _check_cron(self, cron: str) -> None:
        if len(cron) > MAX_CRON_LENGTH or len(cron.split()) != CRON_FIELDS:
            message = f"must have {CRON_FIELDS} fields: minute, hour, day, month, weekday"
            raise TimetableInvalid("cron", message)
        try:
            self.first_after(datetime(2024, 1, 1, tzinfo=UTC))
        except CronSimError as error:
            raise TimetableInvalid("cron", str(error)) from None


def check_time_zone(name: str) -> None:
    """Check that there is such a zone.

    Raises:
        TimetableInvalid: there is none.
    """
    if not is_time_zone(name):
        message = f"{name!r} is no time zone: use a name such as Europe/Vienna"
        raise TimetableInvalid("time_zone", message)


def is_time_zone(name: str) -> bool:
    """Say whether this host has such a zone."""
    return name in _zones()


@cache
def _zones() -> frozenset[str]:
    """Return the names of all zones; cached, because listing them reads hundreds of files."""
    return frozenset(available_timezones())


def _span(seconds: int) -> str:
    for size, one, many in (
        (86_400, "day", "days"),
        (3_600, "hour", "hours"),
        (60, "minute", "minutes"),
    ):
        if seconds % size == 0:
            number = seconds // size
            return one if number == 1 else f"{number} {many}"
    return "second" if seconds == 1 else f"{seconds} seconds"


@dataclass(frozen=True, kw_only=True)
class Scheduled:
    """When jobs of a type are enqueued by themselves: `@job(…, schedule=Scheduled(cron="0 8 * * *"))`.

    Give either `cron`, by the clock of `time_zone`, or `every_seconds`. The jobs belong to the system
    firm; with `every_firm`, each run is one job for each active firm. Slots that were missed while no
    worker was there run once. Workers store it when they start; an operator's changes stay.

    Raises:
        TypeError: `cron` or `every_seconds` is of the wrong type.
        ValueError: both or neither are given, or one, or the zone, cannot be read.
    """

    cron: str | None = None
    every_seconds: int | None = None
    time_zone: str = "UTC"
    every_firm: bool = False
    payload: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.cron is None) == (self.every_seconds is None):
            raise ValueError("give either cron or every_seconds")
        if self.every_seconds is not None and type(self.every_seconds) is not int:
            raise TypeError("every_seconds must be a whole number")
        if not isinstance(self.cron, str | None):
            raise TypeError("cron must be a string")
        try:
            Timetable(self.cron, self.every_seconds, self.time_zone)
        except TimetableInvalid as error:
            name = "every_seconds" if error.field == "interval_seconds" else error.field
            raise ValueError(f"{name}: {error}") from None
        if self.cron is None and self.time_zone != "UTC":
            raise ValueError("time_zone: is for cron; every_seconds goes by no clock of a zone")
