"""Job types that limits are set for, and short names for what the tests of limits do."""

from __future__ import annotations

from tests.jobs.engine.conftest import add, work_types

__all__ = ["add", "work_types"]
