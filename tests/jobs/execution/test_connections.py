"""What a handler leaves open on its connection is found without a query and rolled back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from jobs.engine.outcomes import Canceled, Completed, DeadLettered, Outcome, Retry
from jobs.errors import Cancel, Fatal, WrongPlace
from jobs.execution.async_bridge import in_database_thread
from jobs.execution.context import JobContext
from jobs.models import JobQueue
from jobs.queue import enqueue
from jobs.registry import job
from mail.models import MailAccount
from tenants.models import Firm
from tests.jobs.execution.conftest import NamePayload
from tests.queue_kit import finish, perform, rows, table_rows, take_one
from tests.support.databases import postgresql_only

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("W-04")]

ERROR = "jobs.errors.TransactionLeftOpen"
Handler = Callable[[NamePayload, JobContext], Any]
Run = Callable[[Handler], Outcome]


@pytest.fixture
def run(firm: Firm, job_types: dict[str, Any]) -> Run:
    """Return a function that runs a handler as a job."""

    def run(handler: Handler) -> Outcome:
        job("test.leaver", category="sync", payload=NamePayload)(handler)
        enqueue("test.leaver", firm=firm)
        claim = take_one()
        outcome = perform(claim)
        finish(claim, outcome)
        return outcome

    return run


def begin() -> None:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")


def write(firm: Firm) -> None:
    # The model's manager would open a transaction of its own.
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT set_config('mailroom.firms', 'all', true)")
        cursor.execute("UPDATE tenants_firm SET name = 'Changed' WHERE id = %s", [firm.pk])


def assert_clean() -> None:
    assert not connection.in_atomic_block
    assert connection.get_autocommit()
    if connection.vendor == "postgresql":
        assert table_rows("SELECT pg_current_xact_id_if_assigned()") == [(None,)]
    else:
        assert not connection.connection.in_transaction


def test_a_handler_that_returns_in_a_transaction_fails_and_is_tried_again(
    run: Run, firm: Firm
) -> None:
    def handle(payload: NamePayload, ctx: JobContext) -> None:
        begin()
        write(firm)

    outcome = run(handle)
    assert isinstance(outcome, Retry)
    assert outcome.failure.error_class == ERROR
    assert "'default'" in outcome.failure.message
    (stored,) = rows(JobQueue)
    assert (stored.status, stored.attempts) == ("pending", 1)
    firm.refresh_from_db()
    assert firm.name == "Acme"
    assert_clean()


@pytest.mark.parametrize(
    "error",
    [
        Cancel("enough"),
        Fatal("never"),
        ValueError("no"),
        ExceptionGroup("tasks", [Cancel("enough")]),
    ],
    ids=repr,
)
def test_an_error_keeps_its_name_and_a_cancel_becomes_a_failure(
    run: Run, firm: Firm, error: Exception
) -> None:
    def handle(payload: NamePayload, ctx: JobContext) -> None:
        transaction.set_autocommit(False)
        write(firm)
        raise error

    outcome = run(handle)
    assert isinstance(outcome, Retry | DeadLettered)
    expected = {Fatal: "jobs.errors.Fatal", ValueError: "ValueError"}.get(type(error), ERROR)
    assert outcome.failure.error_class == expected
    assert "left a transaction open" in outcome.failure.traceback
    assert_clean()


def test_what_ends_in_order_is_no_fault(run: Run, firm: Firm) -> None:
    def in_a_transaction() -> Iterator[int]:
        with transaction.atomic():
            yield from (1, 2)

    def handle(payload: NamePayload, ctx: JobContext) -> None:
        for _ in in_a_transaction():
            raise Cancel("in the middle")

    assert isinstance(run(handle), Canceled)
    assert_clean()


def test_a_connection_closed_inside_its_transaction_is_replaced(run: Run, firm: Firm) -> None:
    def handle(payload: NamePayload, ctx: JobContext) -> None:
        transaction.atomic().__enter__()
        connection.close()

    outcome = run(handle)
    assert isinstance(outcome, Retry)
    assert outcome.failure.error_class == ERROR
    assert_clean()


def test_a_connection_closed_behind_djangos_back_is_replaced_for_the_next_job(run: Run) -> None:
    def handle(payload: NamePayload, ctx: JobContext) -> None:
        connection.ensure_connection()
        connection.connection.close()

    assert isinstance(run(handle), Completed)
    assert_clean()


@postgresql_only
def test_a_pipeline_left_open_is_a_fault(run: Run) -> None:
    left = []

    def handle(payload: NamePayload, ctx: JobContext) -> None:
        connection.ensure_connection()
        left.append(connection.connection.pipeline())
        left[0].__enter__()

    outcome = run(handle)
    assert isinstance(outcome, Retry)
    assert outcome.failure.error_class == ERROR
    assert_clean()


def test_a_copy_of_the_connection_is_the_handlers_own(run: Run) -> None:
    copies = []

    def handle(payload: NamePayload, ctx: JobContext) -> None:
        copy = connection.copy()
        copies.append(copy)
        with copy.cursor() as cursor:
            cursor.execute("BEGIN")

    assert isinstance(run(handle), Completed)
    for copy in copies:
        copy.close()


@pytest.mark.req("J-19")
@pytest.mark.parametrize("leave", [begin, lambda: transaction.set_autocommit(False)])
def test_the_jobs_own_transaction_is_refused_inside_another(
    run: Run, leave: Callable[[], None]
) -> None:
    refusals = []

    def handle(payload: NamePayload, ctx: JobContext) -> None:
        leave()
        try:
            with ctx.transaction():
                MailAccount.objects.create(address="a@acme.example")
        except WrongPlace as error:
            refusals.append(error)

    outcome = run(handle)
    assert len(refusals) == 1
    assert isinstance(outcome, Retry)
    assert outcome.failure.error_class == ERROR
    assert rows(MailAccount) == []
    assert_clean()


def test_a_call_beside_the_event_loop_fails_by_itself(run: Run, firm: Firm) -> None:
    def leave() -> None:
        begin()
        write(firm)

    async def handle(payload: NamePayload, ctx: JobContext) -> None:
        await ctx.astep("leave", leave)

    outcome = run(handle)
    assert isinstance(outcome, Retry)
    assert outcome.failure.error_class == ERROR
    firm.refresh_from_db()
    assert firm.name == "Acme"
    asyncio.run(in_database_thread(assert_clean))
