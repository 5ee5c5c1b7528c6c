"""Fixtures of the tests of faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from tests.support.proxy import Proxy, proxied
from tests.support.scenario import Scenario


@pytest.fixture
def proxy(queue: Scenario) -> Iterator[Proxy]:
    """Return a proxy between the workers and the queue's server."""
    with proxied() as proxy:
        yield proxy


@pytest.fixture
def effects(queue: Scenario) -> Iterator[None]:
    """Create the table that the handlers write to."""
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS test_effect")
        cursor.execute("CREATE TABLE test_effect (job_id text NOT NULL, attempt integer NOT NULL)")
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE test_effect")


@pytest.fixture
def waits_for_no_lock() -> Iterator[None]:
    """Let every statement of this thread that waits for a lock fail; for PostgreSQL."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '500ms'")
    yield
    connection.close()
