"""Schedulers in processes of their own, which are killed: nevertheless every slot runs once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from jobs.models import Schedule
from tenants.models import Firm
from tenants.scope import all_firms
from tests.jobs.schedules.kit import MINUTE, START, doubles, jobs, schedule
from tests.support.databases import database_url
from tests.support.waiting import wait_until
from tests.support.workers import ROOT

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.req("S-01"),
    pytest.mark.processes,
]

TICKERS = 2
SCHEDULES = 8
# How many slots, and how many kills among them: in the suite, and in `make chaos`.
SUITE = (12, 3)
CHAOS = (200, 50)


class Tickers:
    """Processes that tick by the same clock."""

    def __init__(self, folder: Path) -> None:
        self._clock = folder / "clock"
        self._started = 0
        self._processes: list[tuple[subprocess.Popen[bytes], Path]] = []

    def set_clock(self, moment: datetime) -> None:
        """Set the clock of all processes to this time."""
        draft = self._clock.with_suffix(".new")
        draft.write_text(moment.isoformat(), encoding="ascii")
        draft.replace(self._clock)

    def start(self) -> None:
        """Start one more process."""
        self._started += 1
        mark = self._clock.with_name(f"clock.{self._started}")
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.jobs.schedules.ticker", self._clock, mark],
            cwd=ROOT,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "tests.support.worker_settings",
                "DATABASE_URL": database_url(),
            },
        )
        self._processes.append((process, mark))

    def wait_until_one_ticks(self) -> None:
        """Wait until one of the processes has ticked."""
        wait_until(lambda: any(mark.exists() for _, mark in self._processes), "a tick")

    def kill(self, rng: Random) -> None:
        """Kill one of the processes that have ticked."""
        at_work = [one for one in self._processes if one[1].exists()]
        victim = rng.choice(at_work)
        self._processes.remove(victim)
        victim[0].kill()
        victim[0].wait(10)

    def kill_all(self) -> None:
        """Kill the processes that are left."""
        for process, _ in self._processes:
            process.kill()
            process.wait(10)


@pytest.fixture
def tickers(tmp_path: Path) -> Iterator[Tickers]:
    found = Tickers(tmp_path)
    yield found
    found.kill_all()


def behind(moment: datetime) -> int:
    """Return how many schedules have not run a slot that is due at `moment`."""
    with all_firms("test"):
        return Schedule.objects.filter(next_run_at__lte=moment).count()


def test_killing_schedulers_neither_doubles_nor_loses_a_slot(
    firm: Firm, tickers: Tickers, chaos: bool
) -> None:
    slots, kills = CHAOS if chaos else SUITE
    rng = Random(9)
    rows = [schedule(firm, name=f"number {number}") for number in range(SCHEDULES)]
    tickers.set_clock(START)
    for _ in range(TICKERS):
        tickers.start()
    tickers.wait_until_one_ticks()
    fatal = set(rng.sample(range(1, slots + 1), kills))

    for number in range(1, slots + 1):
        # Never on the minute, because SQLite compares times as texts, and writes whole seconds
        # differently.
        moment = START + number * MINUTE + timedelta(seconds=rng.randint(1, 59))
        tickers.set_clock(moment)
        if number in fatal:
            # By then the schedulers run the slot that has just come due, or have run it.
            for _ in range(rng.randint(0, 8)):
                behind(moment)
            tickers.kill(rng)
            tickers.start()
            tickers.wait_until_one_ticks()
        wait_until(lambda: not behind(moment), "every run of the slot")  # noqa: B023 - waited for at once

    keys = [job.idempotency_key for job in jobs()]
    assert doubles(keys) == []
    assert sorted(keys) == sorted(
        f"schedule:{row.pk}:{START + number * MINUTE:%Y%m%dT%H%M%SZ}"
        for row in rows
        for number in range(1, slots + 1)
    )
