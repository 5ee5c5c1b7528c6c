"""What tests of faults ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.proxy import Proxy, proxied
from tests.support.scenario import Scenario


@pytest.fixture
def proxy(queue: Scenario) -> Iterator[Proxy]:
    """Return a network in front of the queue's server."""
    with proxied() as proxy:
        yield proxy
