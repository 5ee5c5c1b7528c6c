"""Claims that wait in a worker: others take them over, and decisions reach them in time."""

from __future__ import annotations

import sqlite3

import pytest

from tests.simulation.mutants import RUSH_MUTANTS
from tests.simulation.rush import Rush
from tests.simulation.world import simulate
from tests.support.databases import sqlite_only
from tests.support.mutation import Seen

pytestmark = [pytest.mark.django_db, sqlite_only, pytest.mark.req("W-02", "J-16")]

SEEDS = 12
# Some faults show with few seeds only, so more seeds are tried.
MUTANT_SEEDS = 150
CAUGHT_BY = {
    "prefetched claims kept": "after it was claimed",
    "pauses overlooked": "after it was paused",
    "cancel request lost on release": "after it was canceled",
    "expired after the claim": "after it had expired",
}


@pytest.mark.parametrize("number", range(SEEDS), ids="seed-{:04}".format)
def test_whatever_is_claimed_and_not_begun_is_reached(
    number: int, content: sqlite3.Connection
) -> None:
    run = simulate(number, content, kind=Rush)
    assert not run.violation, run.story()


@pytest.mark.parametrize("name", RUSH_MUTANTS)
def test_the_simulation_catches(name: str, content: sqlite3.Connection) -> None:
    met = Seen()

    def mutate(monkeypatch: pytest.MonkeyPatch) -> None:
        RUSH_MUTANTS[name](monkeypatch, met)

    violations = (simulate(seed, content, mutate, Rush).violation for seed in range(MUTANT_SEEDS))
    caught = any(CAUGHT_BY[name] in violation for violation in violations)
    assert met, "the faulty code never ran: was it changed?"
    assert caught
