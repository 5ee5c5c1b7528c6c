"""A worker's row says who the worker is and what it does; it is deleted when the worker ends."""

from __future__ import annotations

import socket

import pytest

from jobs import VERSION
from jobs.models import Worker
from jobs.queries.lists import running_jobs
from tenants.scope import all_firms
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet

pytestmark = [pytest.mark.processes, pytest.mark.req("W-05")]


def test_the_row_shows_a_working_process_and_disappears_with_it(
    queue: Scenario, fleet: Fleet
) -> None:
    gate = queue.gate()
    (job_id,) = queue.add(gate=gate)
    serving = ("--category", "notifications", "--concurrency", "2")
    working = fleet.start(*serving, lease_seconds=SHORT_LEASE_SECONDS)
    queue.wait_until_started(job_id)

    first = Worker.objects.get()
    assert (first.host, first.pid) == (socket.gethostname(), working.session)
    assert (first.version, first.concurrency) == (VERSION, 2)
    assert first.categories == ["notifications"]
    with all_firms("looking at its jobs"):
        assert running_jobs([first]) == {first.pk: [str(job_id)]}
    wait_until(lambda: Worker.objects.get().running == [str(job_id)], "the job in the row")
    later = wait_until(
        lambda: Worker.objects.filter(heartbeat_at__gt=first.heartbeat_at).first(), "a heartbeat"
    )
    assert later.lease_expires_at > first.lease_expires_at
    assert later.rss_bytes > 10_000_000

    working.kill()
    gate.open()
    fleet.start(lease_seconds=SHORT_LEASE_SECONDS).wait_until_started()
    wait_until(lambda: not Worker.objects.filter(pk=first.pk).exists(), "the dead worker's row")
    queue.wait_until_settled()
    fleet.stop()
    assert not Worker.objects.exists()
