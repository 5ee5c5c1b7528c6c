"""A worker's row: what it means if a worker registers again."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest
from uuid_utils.compat import uuid7

from jobs.conf import lease_seconds
from jobs.engine.clock import database_now
from jobs.engine.lease import WorkerInfo, heartbeat, register
from jobs.engine.rescue import rescue
from jobs.models import Worker
from jobs.testing import frozen_time

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("settled_database"),
    pytest.mark.req("J-14", "W-05"),
]


def info(worker_id: UUID) -> WorkerInfo:
    return WorkerInfo(
        worker_id=worker_id,
        host="test",
        pid=1,
        version="0",
        categories=(),
        job_types=(),
        concurrency=1,
    )


def test_a_repeat_after_a_lost_answer_begins_the_lease_anew():
    worker = info(uuid7())
    with frozen_time() as clock:
        register(worker)
        clock.tick(seconds=lease_seconds() + 1)
        assert register(worker)
        assert rescue(Random(1)).workers == 0
        clock.tick(seconds=lease_seconds() + 1)
        assert rescue(Random(1)).workers == 1


def test_who_was_given_up_meanwhile_is_told_so():
    worker = info(uuid7())
    register(worker)
    Worker.objects.filter(pk=worker.worker_id).update(dead_at=database_now())
    assert not register(worker)


def test_a_heartbeat_begins_the_lease_anew():
    worker = info(uuid7())
    with frozen_time() as clock:
        register(worker)
        for _ in range(3):
            clock.tick(seconds=0.9 * lease_seconds())
            assert heartbeat(worker.worker_id, rss_bytes=1)
            assert rescue(Random(1)).workers == 0
        clock.tick(seconds=lease_seconds() + 1)
        assert rescue(Random(1)).workers == 1


def test_a_worker_that_was_marked_dead_is_told_by_its_heartbeat():
    worker = info(uuid7())
    register(worker)
    Worker.objects.filter(pk=worker.worker_id).update(dead_at=database_now())
    assert not heartbeat(worker.worker_id, rss_bytes=1)
