"""The job types of the tests of limits, and a stopped clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.jobs.engine.conftest import add, work_types
from tests.queue_kit import later

__all__ = ["add", "work_types"]


@pytest.fixture
def now() -> Iterator[datetime]:
    """Stop the clock for the test; return the time it shows."""
    with later(0) as moment:
        yield moment
