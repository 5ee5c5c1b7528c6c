"""What tests of faults ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fixtures import fleet, own_server, queue, queue_on_own_server
from tests.support.proxy import Proxy, proxied
from tests.support.scenario import Scenario

__all__ = ["fleet", "own_server", "proxy", "queue", "queue_on_own_server"]


@pytest.fixture
def proxy(queue: Scenario) -> Iterator[Proxy]:
    """Return a network in front of the queue's server."""
    with proxied() as proxy:
        yield proxy
