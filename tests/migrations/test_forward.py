"""A database of an earlier release is migrated, keeps every row, and can be used.

The dumps in `tests/data` were made by version 0.1.0: two firms, and jobs in every state. The worker
`app-1` of the dump died before it started "first of the lock".
"""

from __future__ import annotations

import lzma
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django import DjangoDbBlocker

from jobs.models import (
    Attempt,
    CircuitBreaker,
    ConcurrencyLock,
    DeadLetterQueue,
    FanIn,
    FanInMember,
    JobMinute,
    JobQueue,
    JobStep,
    Pause,
    RateLimit,
    Schedule,
)
from jobs.queue import reprocess
from jobs.registry import JobPayload, job
from tenants.models import ApiKey, Membership
from tenants.scope import all_firms
from tests.queue_kit import rows, table_rows
from tests.support.databases import default_database, empty_database, unpooled_only
from tests.support.paths import ROOT
from tests.support.schema import described

pytestmark = pytest.mark.req("J-01", "J-08", "J-14", "J-16", "A-03")

# The statuses in the dump, by the number of the invoice, or by type without one.
BEFORE = {
    "completed": "completed",
    "completed elsewhere": "completed",
    "batch": "completed",
    "escalation_notice": "completed",
    "failed": "failed",
    "discarded": "failed",
    "canceled": "canceled",
    "dead": "dlq",
    "escalated": "dlq",
    "first of the lock": "claimed",
    "waits for the lock": "pending",
    "retried": "pending",
    "part 1": "pending",
    "part 2": "pending",
    "pending": "pending",
    "pending elsewhere": "pending",
    "urgent": "pending",
    "scheduled": "pending",
}
# The statuses after a worker has run and "dead" was reprocessed; "scheduled" is due in 2100.
AFTER = {
    **{name: "completed" for name, status in BEFORE.items() if status in ("claimed", "pending")},
    **{name: BEFORE[name] for name in BEFORE if BEFORE[name] not in ("claimed", "pending")},
    "dead": "completed",
    "scheduled": "pending",
    # The callback of the batch, when its jobs are completed.
    "sum": "completed",
}
OTHERS = {
    Attempt: 5,
    JobStep: 3,
    DeadLetterQueue: 3,
    FanIn: 1,
    FanInMember: 2,
    ConcurrencyLock: 1,
    CircuitBreaker: 1,
    Schedule: 1,
    Pause: 1,
    RateLimit: 2,
    Membership: 1,
    ApiKey: 1,
    JobMinute: 4,
}


class InvoicePayload(JobPayload):
    number: str
    broken: bool = False


@pytest.fixture
def invoice_types(job_types: dict[str, Any]) -> None:
    """Declare the types of the dump's jobs."""

    def declare(name: str, **options: Any) -> None:
        def handle(payload: InvoicePayload, ctx: Any) -> dict[str, str]:
            return {"sent": payload.number}

        handle.__qualname__ = name
        job(name, category="documents", payload=InvoicePayload, **options)(handle)

    for name in ("invoice.send", "invoice.shrug", "invoice.export", "invoice.batch"):
        declare(name)
    declare("invoice.number", lock_key=lambda _: "numbers")


@pytest.fixture
def new_schema(transactional_db: None) -> set[tuple[Any, ...]]:
    """Return the description of a database that was migrated in one go."""
    return described()


@pytest.fixture
def old_database(
    new_schema: set[tuple[Any, ...]], django_db_blocker: DjangoDbBlocker, tmp_path: Path
) -> Iterator[None]:
    """Make a database of version 0.1.0 the default one inside the test."""
    dump = ROOT / "tests" / "data" / f"release_0_1_{connection.vendor}.sql.xz"
    sql = lzma.decompress(dump.read_bytes()).decode()
    with (
        django_db_blocker.unblock(),
        empty_database("old", tmp_path) as url,
        default_database(url),
    ):
        _load(sql, url)
        yield


def _load(sql: str, url: str) -> None:
    if connection.vendor == "postgresql":
        with psycopg.connect(url) as loaded:
            loaded.execute(sql.encode())
    else:
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as loaded:
            loaded.executescript(sql)


def by_number(what: Callable[[JobQueue], Any]) -> dict[str, Any]:
    return {one.payload.get("number") or one.job_type: what(one) for one in rows(JobQueue)}


def stored_jobs() -> list[dict[str, Any]]:
    """Return the stored jobs with all columns that the table has."""
    with all_firms("test"), connection.cursor() as cursor:
        cursor.execute("SELECT * FROM jobs_jobqueue ORDER BY job_id")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]


@unpooled_only
def test_an_old_database_keeps_its_jobs_and_runs(
    new_schema: set[tuple[Any, ...]],
    old_database: None,
    invoice_types: None,
    settled_database: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = stored_jobs()
    assert len(before) == len(BEFORE)
    call_command("migrate", verbosity=0)
    assert sorted(map(str, described() ^ new_schema)) == []
    after = stored_jobs()
    assert [{name: new[name] for name in old} for old, new in zip(before, after, strict=True)] == (
        before
    )
    assert by_number(lambda one: one.status) == BEFORE
    firms = {"pending elsewhere": "globex", "completed elsewhere": "globex"}
    assert by_number(lambda one: one.firm.slug) == {
        name: firms.get(name, "acme") for name in BEFORE
    }
    assert {model: len(rows(model)) for model in OTHERS} == OTHERS
    assert table_rows("SELECT count(*) FROM tenants_firm") == [(3,)]

    call_command("check_jobs")
    assert "can be read" in capsys.readouterr().out

    letters = {one.original_job.payload["number"]: one for one in _letters()}
    assert {name: one.resolution for name, one in letters.items()} == {
        "dead": "",
        "escalated": "escalated",
        "discarded": "discarded",
    }
    reprocess(letters["dead"])
    call_command("runworker", burst=True)
    assert by_number(lambda one: one.status) == AFTER
    assert by_number(lambda one: one.attempts)["first of the lock"] == 1
    assert rows(ConcurrencyLock) == []


def _letters() -> list[DeadLetterQueue]:
    with all_firms("test"):
        return list(DeadLetterQueue.objects.select_related("original_job"))
