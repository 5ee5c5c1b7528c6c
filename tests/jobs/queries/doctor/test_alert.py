"""A snapshot that is kept too long is shown in metrics, readiness, the dashboard and the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from jobs.engine.lease import deregister
from jobs.execution.events import Event
from jobs.queries.doctor import snapshots
from jobs.queries.doctor.snapshots import SnapshotHolder
from jobs.worker.maintenance import LongTransactionWatch
from jobs.worker.state import SharedState
from tests.factories.tenants import UserFactory
from tests.queue_kit import new_worker
from tests.support.databases import postgresql_only

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-06", "W-07")]


def holder(number: int, seconds: float) -> SnapshotHolder:
    return SnapshotHolder(
        "snapshots.session",
        f"session {number}",
        f"Session {number} of role bob, idle in transaction,",
        seconds,
        f"SELECT pg_terminate_backend({number});",
    )


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[SnapshotHolder]:
    """Return the list of sessions that hold snapshots; empty until a test fills it."""
    found: list[SnapshotHolder] = []
    monkeypatch.setattr(snapshots, "_sessions", lambda: iter(found))
    monkeypatch.setattr(snapshots, "_prepared", lambda: iter(()))
    return found


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Event, Mapping[str, Any]]]:
    """Return the list of events that maintenance emits from now on."""
    said: list[tuple[Event, Mapping[str, Any]]] = []
    monkeypatch.setattr(
        "jobs.worker.maintenance.emit", lambda event, **fields: said.append((event, fields))
    )
    return said


def scraped() -> str:
    return Client().get(reverse("metrics")).content.decode()


@postgresql_only
def test_the_gauge_is_the_age_of_the_oldest(held: list[SnapshotHolder]) -> None:
    assert "mailroom_oldest_snapshot_seconds 0.0" in scraped()
    held += [holder(1, 20.0), holder(2, 412.5)]
    assert "mailroom_oldest_snapshot_seconds 412.5" in scraped()


@pytest.mark.skipif(connection.vendor != "sqlite", reason="a file has no such thing")
def test_sqlite_has_no_such_gauge() -> None:
    assert "mailroom_oldest_snapshot_seconds" not in scraped()
    assert Client().get(reverse("readyz")).json() == {"status": "ready", "warnings": []}


@postgresql_only
def test_readiness_warns_and_stays_ready(held: list[SnapshotHolder]) -> None:
    held.append(holder(1, 299.0))
    assert Client().get(reverse("readyz")).json() == {"status": "ready", "warnings": []}
    held.append(holder(2, 300.0))
    answer = Client().get(reverse("readyz"))
    assert answer.status_code == 200
    assert "old snapshot" in answer.json()["warnings"][0]
    assert "bob" not in answer.content.decode()


@postgresql_only
def test_the_dashboard_shows_it_to_platform_staff_alone(held: list[SnapshotHolder]) -> None:
    held.append(holder(7, 420.0))
    staff, member = Client(), Client()
    staff.force_login(UserFactory(username="root", platform_staff=True))
    member.force_login(UserFactory(username="ada", is_staff=True))
    shown = staff.get(reverse("admin:index")).content.decode()
    assert "Session 7 of role bob, idle in transaction, has held a snapshot for 7 min." in shown
    assert "role bob" not in member.get(reverse("admin:index")).content.decode()
    held.clear()
    assert "held a snapshot" not in staff.get(reverse("admin:index")).content.decode()


@postgresql_only
def test_each_occurrence_is_one_line_of_the_worker_that_lives_longest(
    held: list[SnapshotHolder], told: list[tuple[Event, Mapping[str, Any]]]
) -> None:
    watches = []
    for _ in range(2):
        state = SharedState()
        state.lease.worker_id = new_worker()
        watches.append(LongTransactionWatch(state))
    eldest = watches[0]._state.worker_id

    def look() -> int:
        told.clear()
        for watch in watches:
            watch.check()
        return len(told)

    assert look() == 0
    held.append(holder(1, 299.0))
    assert look() == 0
    held[:] = [holder(1, 301.0)]
    assert look() == 1
    (event, fields) = told[0]
    assert event is Event.SNAPSHOT_PINNED
    assert fields == {
        "holder": "session 1",
        "held_s": 301,
        "mend": "SELECT pg_terminate_backend(1);",
    }
    held[:] = [holder(1, 331.0)]
    assert look() == 0
    held.append(holder(2, 300.0))
    assert [look(), told[0][1]["holder"]] == [1, "session 2"]
    held.clear()
    assert look() == 0
    held.append(holder(1, 600.0))
    assert look() == 1
    deregister(eldest)
    held.append(holder(3, 600.0))
    assert [look(), told[0][1]["holder"]] == [1, "session 3"]
