"""Five schedulers at once: each slot runs once, despite summer time, clock jumps and kills."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection

from jobs.models import Schedule
from jobs.schedules import tick
from jobs.schedules.tick import GRACE_SECONDS, slot_key
from jobs.states import MissedRuns, ScheduleTarget
from tenants.models import Firm
from tests.jobs.schedules.kit import DAY, HOUR, MINUTE, at, doubles, jobs, now, schedule, tick_at

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("S-01")]

SCHEDULERS = 5
# The number of ticks: in the suite, and in `make chaos`.
SUITE = 1_500
CHAOS = 100_000
# The probability of a death in a tick, for each of the schedulers, and of a jump of the clock
# before a tick.
DOOM = 0.15
JUMP = 0.04
# On these weekends Vienna changes its clocks.
WEEKENDS = ("2026-03-28 18:00", "2026-10-24 18:00")
STAY = timedelta(hours=14)


class Killed(BaseException):
    """The death of the process: nothing after it runs, and nothing is committed."""


@dataclass
class Expected:
    """The slots that one schedule should have run by now, computed tick by tick."""

    row: Schedule
    next_slot: datetime
    slots: list[datetime] = field(default_factory=list)

    def reckon(self, moment: datetime) -> None:
        """Add the slot that a tick at this moment has to run."""
        if self.next_slot > moment:
            return
        timetable = self.row.timetable()
        slot = timetable.latest(self.next_slot, moment)
        late = (moment - slot).total_seconds()
        if self.row.missed_runs == MissedRuns.RUN_ONCE or late <= GRACE_SECONDS:
            self.slots.append(slot)
        self.next_slot = timetable.first_after(moment, anchor=slot)


class Schedulers:
    """Threads with a connection each, which tick at the same time; some die on the way."""

    def __init__(self, rng: Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ticks = 0
        self._rng = rng
        self._together = threading.Barrier(SCHEDULERS)
        # The deaths left in this tick: each scheduler that moves a schedule takes one from the
        # list.
        self._fates: list[str] = []
        self._pool = ThreadPoolExecutor(SCHEDULERS)
        real = tick.advance

        def advance(*arguments: Any, **options: Any) -> bool:
            fate = self._next_fate()
            if fate == "before the move":
                raise Killed
            moved = real(*arguments, **options)
            if fate == "before the commit":
                raise Killed
            return moved

        monkeypatch.setattr(tick, "advance", advance)
        # Without keys, because a key would hide a second run of a slot while the first job is live.
        spec = tick._spec
        monkeypatch.setattr(
            tick, "_spec", lambda *given: replace(spec(*given), idempotency_key=None)
        )

    def tick(self, moment: datetime, *, deadly: bool) -> int:
        """Let all of them tick at this moment; return how many died."""
        self._fates = [
            self._rng.choice(("before the move", "before the commit"))
            for _ in range(SCHEDULERS)
            if deadly and self._rng.random() < DOOM
        ]
        self.ticks += SCHEDULERS
        return sum(self._pool.map(lambda _: self._one(moment), range(SCHEDULERS)))

    def _next_fate(self) -> str:
        try:
            return self._fates.pop()
        except IndexError:
            return ""

    def _one(self, moment: datetime) -> bool:
        self._together.wait(30)
        try:
            tick_at(moment)
        except Killed:
            return True
        return False

    def close(self) -> None:
        """Close the connections of the threads."""
        together = threading.Barrier(SCHEDULERS)

        def leave(_: int) -> None:
            together.wait(30)
            connection.close()

        list(self._pool.map(leave, range(SCHEDULERS)))
        self._pool.shutdown()


@pytest.fixture
def rng() -> Random:
    return Random(2026)


@pytest.fixture
def schedulers(rng: Random, monkeypatch: pytest.MonkeyPatch) -> Iterator[Schedulers]:
    found = Schedulers(rng, monkeypatch)
    yield found
    found.close()


def moments(rng: Random, ticks: int) -> Iterator[datetime]:
    """Yield the clock's times on both weekends: mostly forward, with some jumps that are undone."""
    share = ticks // (2 * SCHEDULERS * len(WEEKENDS))
    for weekend in WEEKENDS:
        start = moment = at(weekend)
        step = STAY / share
        for _ in range(share):
            moment += rng.uniform(0.2, 1.8) * step
            if rng.random() < JUMP:
                yield max(start, moment + rng.uniform(-3, 0.5) * HOUR)
            yield moment


def make_schedules(firm: Firm, system: Firm) -> list[Expected]:
    start = at(WEEKENDS[0]) - MINUTE
    columns: list[dict[str, Any]] = [
        {"cron": "30 2 * * *", "time_zone": "Europe/Vienna", "missed_runs": "run_once"},
        {"cron": "*/20 1-3 * * *", "time_zone": "Europe/Vienna", "missed_runs": "run_once"},
        {"cron": "*/10 * * * *", "time_zone": "Europe/Vienna"},
        {"cron": "0 * * * *", "time_zone": "America/New_York", "missed_runs": "run_once"},
        {"interval_seconds": 420},
        {"interval_seconds": 3600, "missed_runs": "run_once"},
    ]
    rows = [
        schedule(firm, created=start, name=f"number {number}", **one)
        for number, one in enumerate(columns)
    ]
    rows.append(
        schedule(system, created=start, target=ScheduleTarget.EVERY_FIRM, interval_seconds=600)
    )
    return [Expected(row, row.next_run_at) for row in rows]


def test_no_slot_twice_and_none_missed(
    firm: Firm, system_firm: Firm, schedulers: Schedulers, rng: Random, chaos: bool
) -> None:
    expected = make_schedules(firm, system_firm)
    ticks, killed = CHAOS if chaos else SUITE, 0
    for moment in moments(rng, ticks):
        killed += schedulers.tick(moment, deadly=True)
        # The living may have skipped schedules that the dying had locked; the next tick runs these.
        schedulers.tick(moment, deadly=False)
        for one in expected:
            one.reckon(moment)

    assert schedulers.ticks >= ticks
    assert killed > 40
    wanted = sorted(slot_key(one.row, slot) for one in expected for slot in one.slots)
    assert doubles(wanted) == []
    assert sorted(job.correlation_id for job in jobs()) == wanted
    assert [now(one.row).next_run_at for one in expected] == [one.next_slot for one in expected]
    nightly = [slot for slot in expected[0].slots if slot.date() < at("2026-03-30 00:00").date()]
    assert nightly == [at("2026-03-29 01:00")]
    assert at("2026-10-25 00:30") in expected[0].slots
    assert max(one.next_slot for one in expected) - min(one.next_slot for one in expected) < DAY
