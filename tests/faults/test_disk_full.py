"""The database's disk is full: accepted jobs stay, and what is refused is refused with an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import OperationalError, connection
from pytest_django import DjangoDbBlocker

from jobs.states import Status
from tests.postgres import postgres_server
from tests.support.databases import postgresql_only, sqlite_only
from tests.support.disk import Disk, small_disk
from tests.support.fixtures import queue_at
from tests.support.scenario import Gate, Scenario
from tests.support.workers import Fleet, manage

pytestmark = [pytest.mark.processes, pytest.mark.req("J-06", "W-04")]

SQLITE_MEGABYTES = 16
# An empty server and its write-ahead log take most of this.
POSTGRESQL_MEGABYTES = 160
PORTION = 50
# Far more than any of the disks holds.
MOST_PORTIONS = 2_000


def refuse_then_recover(queue: Scenario, fleet: Fleet, disk: Disk) -> None:
    worker = fleet.start().wait_until_started()
    queue.add(PORTION)
    queue.wait_until_settled()
    gate = queue.gate()
    queue.add(2, gate=gate)

    disk.fill()
    with pytest.raises(OperationalError):
        add_more_than_fits(queue, gate)
    gate.open()
    disk.empty()

    queue.wait_until_settled()
    queue.add(PORTION)
    queue.wait_until_settled()
    assert queue.statuses() == {Status.COMPLETED: len(queue.accepted)}
    assert worker.alive
    fleet.stop()
    queue.check()


def add_more_than_fits(queue: Scenario, gate: Gate) -> None:
    for _ in range(MOST_PORTIONS):
        queue.add(PORTION, gate=gate)


@sqlite_only
def test_a_full_disk_under_a_file(
    fleet: Fleet, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> None:
    with (
        django_db_blocker.unblock(),
        small_disk(tmp_path / "disk", SQLITE_MEGABYTES) as disk,
        queue_at(f"sqlite:///{disk.path / 'queue.sqlite3'}", tmp_path) as queue,
    ):
        refuse_then_recover(queue, fleet, disk)


@sqlite_only
def test_a_command_on_a_full_disk_says_so_and_claims_nothing(
    tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> None:
    with (
        django_db_blocker.unblock(),
        small_disk(tmp_path / "disk", SQLITE_MEGABYTES) as disk,
        queue_at(f"sqlite:///{disk.path / 'queue.sqlite3'}", tmp_path) as queue,
    ):
        # Opening the file takes space on the disk, too.
        connection.close()
        disk.fill()
        listed = manage("jobs", "list")
        assert listed.returncode == 1
        assert "disk I/O error (its disk is full)" in listed.stderr
        disk.empty()
        assert manage("jobs", "list").returncode == 0

        # While another process has the file open, only the commit fails.
        assert queue.statuses() == {}
        disk.fill()
        enqueued = manage("jobs", "enqueue", "process.default", "--payload", '{"journal": "x"}')
        assert "database or disk is full" in enqueued.stderr
        assert enqueued.stdout == ""
        disk.empty()
        assert queue.statuses() == {}


@postgresql_only
def test_a_full_disk_under_a_server(
    fleet: Fleet, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> None:
    with (
        django_db_blocker.unblock(),
        small_disk(tmp_path / "disk", POSTGRESQL_MEGABYTES) as disk,
        postgres_server(disk=disk.path) as server,
        queue_at(server.url, tmp_path) as queue,
    ):
        refuse_then_recover(queue, fleet, disk)
