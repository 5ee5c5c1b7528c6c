"""A dead letter has the category and the type of its job, whoever opened it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from jobs.engine.outcomes import DeadLettered, Failure, Settlement
from jobs.engine.settle import settle
from jobs.models import DeadLetterQueue
from jobs.states import DeadReason
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.factories.jobs import JobQueueFactory
from tests.queue_kit import dead_letters, table_rows, take

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("D-01", "J-01")]


def kinds() -> list[tuple[str | None, str | None]]:
    return sorted((one.category, one.job_type) for one in dead_letters())


def open_without(firm: Firm, job_type: str, category: str = "sync") -> None:
    """Open a dead letter as the previous version does, without category and type."""
    job = JobQueueFactory(firm=firm, category=category, job_type=job_type, status="dlq")
    with firm_scope(firm):
        DeadLetterQueue.objects.create(firm=firm, original_job=job, job_series=1, reason="fatal")


@pytest.fixture
def no_trigger() -> Iterator[None]:
    """Remove the trigger that fills in category and type."""
    made = import_module("jobs.migrations.0034_dead_letter_kinds")
    is_postgresql = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        cursor.execute(made.BACK[connection.vendor][0])
    yield
    with connection.cursor() as cursor:
        cursor.execute((made.POSTGRESQL if is_postgresql else made.SQLITE)[-1])


@pytest.mark.usefixtures("no_trigger")
def test_the_engine_writes_them_itself(firm: Firm, add: Any) -> None:
    add(), add("test.other")
    settle(
        [
            Settlement(claim, DeadLettered(DeadReason.FATAL, Failure("E", "message")), 0.1)
            for claim in take(2)
        ]
    )
    assert kinds() == [("export", "test.other"), ("sync", "test.work")]


def test_the_trigger_fills_them_in_for_workers_that_do_not_know_of_them(
    firm: Firm, other_firm: Firm
) -> None:
    open_without(firm, "test.a"), open_without(other_firm, "test.b", "export")
    assert kinds() == [("export", "test.b"), ("sync", "test.a")]


def test_the_migration_fills_in_those_of_old_letters(
    firm: Firm, other_firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("jobs.migrations.0035_open_dead_letters"), "CHUNK", 2)
    for number in range(5):
        open_without((firm, other_firm)[number % 2], f"test.{number}")
    try:
        call_command("migrate", "jobs", "0033", verbosity=0)
        with pytest.raises(Exception, match="category"):
            table_rows("SELECT category FROM jobs_deadletterqueue")
    finally:
        call_command("migrate", "jobs", verbosity=0)
    assert kinds() == [("sync", f"test.{number}") for number in range(5)]
