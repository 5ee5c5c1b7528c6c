"""The simulation notices each known fault within a bounded number of seeds."""

from __future__ import annotations

import sqlite3

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.world import simulate
from tests.support.databases import sqlite_only
from tests.support.mutation import Seen

pytestmark = [pytest.mark.django_db, sqlite_only]

# The first three seeds catch almost all faults.
SEEDS = 150


@pytest.mark.req("J-09", "J-14", "J-15", "J-20", "J-23")
@pytest.mark.parametrize("name", MUTANTS)
def test_the_simulation_catches(name: str, content: sqlite3.Connection) -> None:
    met = Seen()

    def mutate(monkeypatch: pytest.MonkeyPatch) -> None:
        MUTANTS[name](monkeypatch, met)

    caught = any(simulate(seed, content, mutate).violation for seed in range(SEEDS))
    assert met, "the faulty code never ran: was it changed?"
    assert caught
