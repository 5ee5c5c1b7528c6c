"""A signal's exception in a transaction of the engine is raised as it is and breaks nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection

from jobs.engine.transactions import in_transaction, run
from jobs.models import JobQueue
from jobs.queue import EnqueueSpec, enqueue, enqueue_many
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.queue_kit import table_rows
from tests.support.databases import postgresql_only
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-05"), postgresql_only]

# More jobs than one statement stores, so that they are stored in a pipeline.
MANY = 500


def enqueue_many_of(firm: Firm) -> None:
    enqueue_many([EnqueueSpec("noop", {})] * MANY, firm=firm)


def committing() -> bool:
    """Return whether another session of this database still runs the interrupted statement."""
    return bool(
        table_rows(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND state <> 'idle'"
        )
    )


def stored(firm: Firm) -> int:
    with firm_scope(firm):
        return JobQueue.objects.count()


@contextmanager
def as_a_pipeline_ends(monkeypatch: pytest.MonkeyPatch) -> Any:
    end: Callable[..., Any] = psycopg.Pipeline._exit_gen

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    def ending(pipeline: Any) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(psycopg.Cursor, "_set_results", interrupted)
            yield from end(pipeline)

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Pipeline, "_exit_gen", ending)
        yield


@contextmanager
def as_a_transaction_ends(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Interrupt between a COMMIT and its answer."""

    def interrupted(server: Any) -> None:
        server.pgconn.send_query(b"COMMIT")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Connection, "commit", interrupted)
        yield


@pytest.mark.parametrize(
    ("interrupt", "left"), [(as_a_pipeline_ends, {0}), (as_a_transaction_ends, {0, MANY})]
)
def test_an_interrupt_is_not_hidden_and_the_connection_is_of_use(
    firm: Firm,
    monkeypatch: pytest.MonkeyPatch,
    interrupt: Callable[[pytest.MonkeyPatch], AbstractContextManager[None]],
    left: set[int],
) -> None:
    with interrupt(monkeypatch), pytest.raises(KeyboardInterrupt):
        enqueue_many_of(firm)
    wait_until(lambda: not committing(), "the interrupted session to end")
    before = stored(firm)
    assert before in left
    enqueue("noop", {}, firm=firm)
    assert stored(firm) == before + 1


def test_an_error_while_an_interrupt_is_handled_stays_one(firm: Firm) -> None:
    """Errors of a cleanup after Ctrl-C are raised as what they are."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    try:
        interrupted()
    except KeyboardInterrupt:
        with pytest.raises(DatabaseError):
            in_transaction(lambda: run("SELECT no_such_function()", []))
    assert connection.is_usable()
