"""What tests of faults ask for."""

from __future__ import annotations

from tests.support.fixtures import fleet, own_server, queue, queue_on_own_server

__all__ = ["fleet", "own_server", "queue", "queue_on_own_server"]
