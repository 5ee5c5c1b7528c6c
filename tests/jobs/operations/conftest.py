"""The job types and the `add` of the engine's tests."""

from __future__ import annotations

from tests.jobs.engine.conftest import add, work_types

__all__ = ["add", "work_types"]
