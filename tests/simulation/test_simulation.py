"""Real workers in virtual time: whatever a seed brings, every invariant holds."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.simulation.network import IN_A_STORM
from tests.simulation.work import Does
from tests.simulation.world import simulate
from tests.support.databases import sqlite_only

# One connection serves all actors; the tests of faults cover databases with many connections.
pytestmark = [pytest.mark.django_db, sqlite_only]

ENOUGH_FOR_EVERYTHING = 20
OTHER_EVENTS = (" crashed", " is frozen", ": outage", ": slow", ": stop", " clock leaps", "rescue")


@pytest.mark.req("J-08", "J-09", "J-13", "J-14", "J-15", "J-16", "J-19", "J-20", "W-03", "W-04")
def test_nothing_breaks(seed: int, content: sqlite3.Connection, tmp_path: Path) -> None:
    run = simulate(seed, content)
    if run.violation:
        trace = tmp_path / "trace"
        trace.write_text("\n".join(run.trace))
        pytest.fail(f"{run.story()}\nAll of them are in {trace}", pytrace=False)


def test_a_seed_leads_to_the_same_run_each_time(content: sqlite3.Connection) -> None:
    for seed in range(3):
        first, second = simulate(seed, content), simulate(seed, content)
        assert first == second
        assert first.trace != simulate(seed + 1, content).trace


def test_the_seeds_bring_everything_there_is(content: sqlite3.Connection) -> None:
    steps = "\n".join(
        step for seed in range(ENOUGH_FOR_EVERYTHING) for step in simulate(seed, content).trace
    )
    wanted = [*IN_A_STORM, *(f"it {does}" for does in Does), *OTHER_EVENTS]
    assert [what for what in wanted if what not in steps] == []
