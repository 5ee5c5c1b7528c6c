"""What tests of one worker process ask for."""

from __future__ import annotations

from tests.support.fixtures import fleet, queue

__all__ = ["fleet", "queue"]
