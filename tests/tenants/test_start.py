"""A database role to which row level security does not apply: reported, warned of, refused."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from io import StringIO
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import OperationalError, transaction
from structlog.testing import capture_logs

from config.start import check_rls
from tenants import rls
from tests.jobs.queries.doctor.kit import execute
from tests.queue_kit import table_rows
from tests.support.databases import (
    POOLED,
    database_url,
    default_database,
    postgresql_only,
    sqlite_only,
)
from tests.support.workers import ROOT

pytestmark = [pytest.mark.req("T-02"), pytest.mark.django_db]

REFUSED = "REQUIRE_RLS is set, but the database role is a superuser"
AWAY = "postgres://nobody@127.0.0.1:1/none"
# Loaded as servers load it: gunicorn plainly, uvicorn inside its event loop.
LOAD_IN_LOOP = """
import asyncio, importlib
async def load(): importlib.import_module("config.asgi")
asyncio.run(load())
"""
# In this time all the processes together have started or refused to start.
START_SECONDS = 300
DOORS = [
    ["-c", "import config.wsgi"],
    ["-c", LOAD_IN_LOOP],
    ["manage.py", "runserver", "--noreload", "--skip-checks", "127.0.0.1:0"],
]


@pytest.fixture
def superuser() -> str:
    """Return the address of the tests' database for its server's superuser."""
    ((name,),) = table_rows("SELECT rolname FROM pg_roles WHERE rolsuper AND rolcanlogin LIMIT 1")
    address = urlsplit(database_url())
    url = address._replace(netloc=f"{name}@{address.netloc.rpartition('@')[2]}").geturl()
    if POOLED:
        pytest.skip("the pooler lets in one role alone")
    try:
        with default_database(url):
            table_rows("SELECT 1")
    except OperationalError:
        pytest.skip("this server lets no superuser in without a password")
    return url


@postgresql_only
def test_the_suites_own_role_has_no_fault(settings: Any) -> None:
    settings.REQUIRE_RLS = True
    assert list(rls.rls_faults()) == []
    check_rls()


@postgresql_only
def test_a_superuser_is_reported_warned_of_and_refused(
    superuser: str, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with default_database(superuser):
        ((fault, fix),) = rls.rls_faults()
        check_rls()
        settings.REQUIRE_RLS = True
        with pytest.raises(ImproperlyConfigured, match=REFUSED):
            check_rls()
        with pytest.raises(SystemCheckError, match=r"tenants\.E001.* is a superuser"):
            call_command("check", deploy=True, tags=["security"], stderr=StringIO())
    assert "NOSUPERUSER NOBYPASSRLS" in fix
    warned = ("tenants", logging.WARNING, f"tenants.rls_fault fault={fault}")
    assert caplog.record_tuples == [warned, warned]


@postgresql_only
def test_a_role_that_is_exempt_is_a_fault(superuser: str) -> None:
    with default_database(superuser), transaction.atomic():
        execute("CREATE ROLE exempt NOSUPERUSER BYPASSRLS")
        execute("SET LOCAL ROLE exempt")
        ((fault, fix),) = rls.rls_faults()
        transaction.set_rollback(True)
    assert "the database role is exempt (BYPASSRLS)" in fault
    assert fix == "ALTER ROLE exempt NOSUPERUSER NOBYPASSRLS;"


@postgresql_only
def test_sessions_in_which_no_row_may_be_filtered_are_a_fault() -> None:
    with transaction.atomic():
        execute("SET LOCAL row_security = off")
        ((fault, fix),) = rls.rls_faults()
    assert "row_security is off" in fault
    assert fix.endswith(" SET row_security = on;")


@postgresql_only
def test_a_database_that_is_away_is_refused_only_where_rls_is_required(settings: Any) -> None:
    with default_database(AWAY), capture_logs() as logs:
        check_rls()
        settings.REQUIRE_RLS = True
        with pytest.raises(ImproperlyConfigured, match="the database does not answer"):
            check_rls()
        with pytest.raises(SystemCheckError, match=r"tenants\.E002"):
            call_command("check", deploy=True, tags=["security"], stderr=StringIO())
    assert [line["event"] for line in logs] == ["tenants.rls_unchecked"]


@postgresql_only
@pytest.mark.processes
def test_no_web_process_starts_as_a_superuser_where_rls_is_required(superuser: str) -> None:
    environment = {**os.environ, "DATABASE_URL": superuser, "REQUIRE_RLS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, *door],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for door in DOORS
    ]
    deadline = time.monotonic() + START_SECONDS
    try:
        said = [
            process.communicate(timeout=max(0.0, deadline - time.monotonic()))[1]
            for process in started
        ]
    finally:
        for process in started:
            # The end of this block waits until the process has ended.
            with process:
                process.kill()
    assert [REFUSED in text for text in said] == [True] * len(DOORS), said
    assert all(process.returncode != 0 for process in started)


@sqlite_only
def test_sqlite_has_no_rls_to_require(settings: Any) -> None:
    check_rls()
    settings.REQUIRE_RLS = True
    with pytest.raises(ImproperlyConfigured, match="only PostgreSQL has row level security"):
        check_rls()
