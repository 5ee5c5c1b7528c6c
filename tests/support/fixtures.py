"""Fixtures of tests that start real workers, or that depend on the planner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from tenants.models import Firm
from tests.factories.tenants import FirmFactory
from tests.postgres import Server, postgres_server
from tests.queue_kit import later
from tests.support.databases import default_database, have_to_itself, listen_url
from tests.support.history import recorded_history
from tests.support.scenario import Scenario
from tests.support.workers import Fleet


@pytest.fixture
def queue(transactional_db: None, firm: Firm, tmp_path: Path) -> Iterator[Scenario]:
    """Return an empty queue whose transitions are recorded."""
    with recorded_history():
        yield Scenario(firm, tmp_path)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Return a fleet without workers; at the end all its workers are killed.

    A test has to request its queue first, so that the tables are emptied after the workers are
    gone.
    """
    fleet = Fleet(tmp_path)
    try:
        yield fleet
    finally:
        fleet.kill()
    fleet.assert_no_traceback()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Let LISTEN go to this process's database, if the suite runs behind a pooler."""
    settings.LISTEN_DATABASE_URL = listen_url()
    yield
    if connection.vendor == "postgresql":
        connection.close()
        with django_db_blocker.unblock():
            have_to_itself()


@pytest.fixture
def no_autovacuum(transactional_db: None) -> Iterator[None]:
    """Keep autovacuum from the table of jobs, because it reads pages and updates statistics."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_jobqueue SET (autovacuum_enabled = false)")
    yield
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_jobqueue RESET (autovacuum_enabled)")


@pytest.fixture
def stopped_clock(db: None) -> Iterator[None]:
    """Let time pass only when the test says so."""
    with later(0):
        yield


@pytest.fixture(scope="session")
def own_server() -> Iterator[Server]:
    """Return a PostgreSQL server that no other test uses at the same time, so that it may crash."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def queue_on_own_server(
    own_server: Server, django_db_blocker: DjangoDbBlocker, tmp_path: Path
) -> Iterator[Scenario]:
    """Return an empty queue on that server, whose database is the default one meanwhile."""
    with django_db_blocker.unblock(), queue_at(own_server.url, tmp_path) as queue:
        yield queue
        call_command("flush", verbosity=0, interactive=False)


@contextmanager
def queue_at(url: str, folder: Path) -> Iterator[Scenario]:
    """Make the database at `url`, which may be empty, the default one; yield a queue in it."""
    with default_database(url), override_settings(LISTEN_DATABASE_URL=""):
        call_command("migrate", verbosity=0)
        with recorded_history():
            yield Scenario(FirmFactory(name="Acme", slug="acme"), folder)
