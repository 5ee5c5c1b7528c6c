"""Fixtures of the tests that start real workers."""

from tests.support.fixtures import fleet, queue

__all__ = ["fleet", "queue"]
