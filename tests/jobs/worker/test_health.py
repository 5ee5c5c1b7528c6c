"""`/healthz` and `/readyz` of the web process and of a worker: liveness and readiness."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from jobs import registry
from jobs.states import Category
from jobs.worker import health
from jobs.worker.health import serve_health
from tests.support.databases import default_database
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.worker_loop import worker_loop
from tests.support.workers import Fleet

pytestmark = pytest.mark.req("O-05")

UNREADY = (503, "the lease is not held\n")


class Probe:
    """Asks a worker's health port, as an orchestrator does."""

    def __init__(self, port: int) -> None:
        self._port = port

    def __call__(self, path: str, method: str = "GET") -> tuple[int, str]:
        """Return status and body; (0, "") if nobody listens."""
        asking = HTTPConnection("127.0.0.1", self._port, timeout=10)
        try:
            asking.request(method, path)
            answer = asking.getresponse()
            return answer.status, answer.read().decode()
        except ConnectionRefusedError:
            return 0, ""
        finally:
            asking.close()


@pytest.fixture
def port() -> Iterator[int]:
    """Return a port for the worker; a socket is bound to it so that no other program gets it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture
def ready() -> list[bool]:
    """Return a list whose last entry says whether the worker of `probe` is ready."""
    return [True]


@pytest.fixture
def probe(ready: list[bool]) -> Iterator[Probe]:
    """Return a probe of a health server that reports what `ready` says."""
    server = serve_health("127.0.0.1", 0, lambda: ready[-1])
    try:
        yield Probe(int(server.server_address[1]))
    finally:
        server.shutdown()
        server.server_close()


def get(path: str) -> tuple[int, dict[str, object]]:
    answer = Client().get(path)
    return answer.status_code, answer.json()


@pytest.mark.django_db
def test_the_web_process_is_ready_where_its_database_is_migrated() -> None:
    assert get("/healthz") == (200, {"status": "ok"})
    assert get("/readyz") == (200, {"status": "ready", "warnings": []})


@pytest.mark.django_db
def test_the_web_process_waits_for_migrations() -> None:
    (last,) = MigrationLoader(connection).graph.leaf_nodes("tenants")
    MigrationRecorder(connection).record_unapplied(*last)
    assert get("/readyz") == (503, {"status": "unready", "reason": "migrations pending"})
    assert get("/healthz") == (200, {"status": "ok"})


@pytest.mark.django_db
def test_the_web_process_waits_for_the_migrations_of_an_empty_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("config.health._complete", set())
    MigrationRecorder(connection).flush()
    assert get("/readyz") == (503, {"status": "unready", "reason": "migrations pending"})


@pytest.mark.django_db
def test_a_process_that_was_ready_builds_no_graph_of_migrations_to_say_so_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (last,) = MigrationLoader(connection).graph.leaf_nodes("tenants")
    assert get("/readyz")[0] == 200
    with monkeypatch.context() as patch:
        patch.setattr(MigrationLoader, "build_graph", lambda _: pytest.fail("the graph is built"))
        assert get("/readyz")[0] == 200
    MigrationRecorder(connection).record_unapplied(*last)
    assert get("/readyz")[0] == 503


@pytest.mark.django_db
def test_the_web_process_lives_without_its_database_and_is_not_ready(tmp_path: Path) -> None:
    nowhere = {
        "postgresql": "postgres://nobody@127.0.0.1:1/nothing",
        "sqlite": f"sqlite:///{tmp_path}/no/such/folder/file",
    }
    with default_database(nowhere[connection.vendor]):
        assert get("/healthz") == (200, {"status": "ok"})
        assert get("/readyz") == (503, {"status": "unready", "reason": "database unavailable"})


def test_a_worker_is_ready_as_long_as_it_says_so(probe: Probe, ready: list[bool]) -> None:
    assert probe("/healthz") == (200, "ok\n")
    assert probe("/readyz") == (200, "ready\n")
    ready.append(False)
    assert probe("/readyz") == UNREADY
    assert probe("/healthz") == (200, "ok\n")
    ready.append(True)
    assert probe("/readyz") == (200, "ready\n")
    assert probe("/nothing")[0] == 404
    assert "python_info" in probe("/metrics")[1]


def test_a_balancer_may_ask_for_the_head_alone_and_send_parameters(
    probe: Probe, ready: list[bool]
) -> None:
    assert probe("/healthz", "HEAD") == (200, "")
    assert probe("/readyz?from=balancer") == (200, "ready\n")
    ready.append(False)
    assert probe("/readyz", "HEAD") == (503, "")


@pytest.mark.req("W-07", "O-07")
def test_what_alerts_ask_the_increase_of_is_exported_before_it_happens(probe: Probe) -> None:
    lines = probe("/metrics")[1].splitlines()
    series = {line.rpartition(" ")[0] for line in lines if not line.startswith("#")}
    breakers = {one.name for one in registry.all_types() if one.breaker is not None}
    assert "sync" in breakers
    assert series >= {
        "mailroom_rescued_jobs_total",
        *(f'mailroom_stale_attempts_total{{category="{one}"}}' for one in Category),
        *(f'mailroom_breaker_openings_total{{job_type="{one}"}}' for one in breakers),
    }


def test_metrics_that_are_not_installed_are_named(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "generate_latest", None)
    assert probe("/metrics") == (404, "no metrics: install mailroom-jobs[metrics]\n")


def test_a_worker_that_has_no_lease_yet_is_not_ready() -> None:
    assert not worker_loop().is_ready()


@pytest.mark.processes
@pytest.mark.req("W-04")
def test_a_worker_that_is_told_to_stop_lives_on_and_is_not_ready(
    queue: Scenario, fleet: Fleet, port: int
) -> None:
    probe, gate = Probe(port), queue.gate()
    (job_id,) = queue.add(gate=gate)
    worker = fleet.start("--health-port", str(port))
    wait_until(lambda: probe("/readyz") == (200, "ready\n"), "a ready worker")
    queue.wait_until_started(job_id)

    worker.tell(signal.SIGTERM)

    wait_until(lambda: probe("/readyz") == UNREADY, "a worker that takes no work")
    assert probe("/healthz") == (200, "ok\n")
    gate.open()
    assert worker.wait_for_exit(90) == 0
    assert probe("/healthz") == (0, "")
