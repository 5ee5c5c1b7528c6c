"""Job types that limits are set for, and short names for what the tests of limits do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.jobs.engine.conftest import add, work_types
from tests.queue_kit import later

__all__ = ["add", "work_types"]


@pytest.fixture
def now() -> Iterator[datetime]:
    """Stop the clock, however long the test takes; return the time it stands at."""
    with later(0) as moment:
        yield moment
