"""Fixtures of the tests that start real workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tenants.models import Firm
from tests.support.history import recorded_history
from tests.support.scenario import Scenario
from tests.support.workers import Fleet

__all__ = ["fleet", "own_server", "queue"]


@pytest.fixture
def queue(transactional_db: None, firm: Firm, tmp_path: Path) -> Iterator[Scenario]:
    """Return an empty queue whose history is recorded."""
    with recorded_history():
        yield Scenario(firm, tmp_path)


@pytest.fixture
def fleet(queue: Scenario, tmp_path: Path) -> Iterator[Fleet]:
    """Return a fleet without workers; none that the test starts survives it."""
    fleet = Fleet(tmp_path)
    try:
        yield fleet
    finally:
        fleet.kill()
    fleet.assert_no_traceback()


@pytest.fixture
def own_server() -> None:
    pass
