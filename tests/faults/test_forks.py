"""A process with open connections forks: the child opens its own, the parent keeps the old ones."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest
from django.db import connection

from jobs.queue import enqueue
from jobs.states import Status
from tests.queue_kit import table_rows
from tests.support.databases import unpooled_only
from tests.support.scenario import Scenario

JOBS = 20
WORKED = 7


@unpooled_only
@pytest.mark.req("J-06", "W-06")
def test_a_forked_child_leaves_its_parents_connection_alone(queue: Scenario) -> None:
    queue.add()
    before = session()

    child = os.fork()
    if child == 0:
        # In the child, nothing may reach the code of the test run.
        with suppress(BaseException):
            if session() != before or connection.vendor == "sqlite":
                for number in range(JOBS):
                    enqueue("noop", firm=queue.firm, idempotency_key=f"child-{number}")
                connection.close()
                os._exit(WORKED)
        os._exit(1)
    for number in range(JOBS):
        enqueue("noop", firm=queue.firm, idempotency_key=f"parent-{number}")
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == WORKED
    assert session() == before
    assert queue.statuses() == {Status.PENDING: 2 * JOBS + 1}


def session() -> int:
    """Return what identifies this connection's session."""
    if connection.vendor == "postgresql":
        return int(table_rows("SELECT pg_backend_pid()")[0][0])
    connection.ensure_connection()
    return id(connection.connection)
