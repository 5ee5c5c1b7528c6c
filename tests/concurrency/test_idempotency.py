"""Enqueues of the same idempotency key that race."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BoundedSemaphore

import pytest
from django.db import connection

from jobs.queue import EnqueueResult, enqueue
from tenants.models import Firm

RACERS = 100
# Connections left for other users of the server.
SPARE_CONNECTIONS = 10


def connections_to_spare() -> int:
    """Return how many more connections the database accepts."""
    if connection.vendor != "postgresql":
        return RACERS
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('max_connections')::int - count(*) FROM pg_stat_activity"
        )
        return int(cursor.fetchone()[0]) - SPARE_CONNECTIONS


@pytest.mark.req("J-07")
@pytest.mark.django_db(transaction=True)
def test_a_hundred_racing_enqueues_make_one_job_and_all_get_its_id(firm: Firm) -> None:
    line = Barrier(RACERS)
    room = BoundedSemaphore(min(connections_to_spare(), RACERS))

    def race(_: int) -> EnqueueResult:
        line.wait(30)
        with room:
            try:
                return enqueue("noop", firm=firm, idempotency_key="the-key")
            finally:
                connection.close()

    with ThreadPoolExecutor(RACERS) as racers:
        results = list(racers.map(race, range(RACERS)))

    assert len({result.job_id for result in results}) == 1
    assert sum(result.created for result in results) == 1
    assert results[0].job.idempotency_key == "the-key"
