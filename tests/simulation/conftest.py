"""The seeds, and the database with which each run begins."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from tests.simulation.storage import database_in_memory, first_content

# How many seeds: in the suite, and in `make chaos`.
SUITE = 300
CHAOS = 3_000

_first: list[sqlite3.Connection] = []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give every seed a test of its own, whose name says which seed to replay."""
    if "seed" in metafunc.fixturenames:
        seeds = CHAOS if metafunc.config.getoption("--chaos") else SUITE
        metafunc.parametrize("seed", range(seeds), ids="seed-{:04}".format)


@pytest.fixture
def content(db: None) -> Iterator[sqlite3.Connection]:
    """Return the database with which every run begins; meanwhile the default one is in memory."""
    if not _first:
        _first.append(first_content())
    with database_in_memory():
        yield _first[0]
