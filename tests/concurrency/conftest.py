"""What tests with several workers ask for."""

from __future__ import annotations

from tests.support.fixtures import fleet, queue

__all__ = ["fleet", "queue"]
