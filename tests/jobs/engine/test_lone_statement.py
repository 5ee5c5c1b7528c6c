"""One statement that is its own transaction: when it bypasses the cursors, and when it may not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, IntegrityError, OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from jobs.engine import dialects
from jobs.engine.dialects.base import Answer
from jobs.engine.wakeup import listen_conninfo
from jobs.queue import enqueue
from tests.support.databases import interrupted, postgresql_only, unpooled_only

pytestmark = [postgresql_only, pytest.mark.django_db(transaction=True)]


ADD = "INSERT INTO alone VALUES (%s::integer)"


@pytest.fixture
def alone() -> Iterator[str]:
    """Return a statement that adds to a table of the test's own."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE alone (number integer PRIMARY KEY)")
    yield ADD
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE alone")


def add(number: int, *, fixed: bool = True) -> Answer:
    return dialects.current().execute_alone(
        transaction.get_connection(), (ADD, [number]), fixed=fixed
    )


def added() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT number FROM alone ORDER BY 1")
        return [number for (number,) in cursor.fetchall()]


def prepared() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name FROM pg_prepared_statements WHERE statement LIKE '%INTO alone%'"
        )
        return [name for (name,) in cursor.fetchall()]


@unpooled_only
@pytest.mark.usefixtures("alone")
def test_one_of_a_few_statements_is_kept_and_one_of_many_is_not() -> None:
    assert add(1) == Answer([], 1)
    kept_by_us = prepared()
    assert [name.startswith("mailroom_") for name in kept_by_us] == [True]
    # psycopg deallocates what it has prepared, so that there are never too many.
    assert add(2, fixed=False) == Answer([], 1)
    assert [name.startswith("mailroom_") for name in prepared() if name not in kept_by_us] == [
        False
    ]
    assert added() == [1, 2]


@pytest.mark.parametrize("fixed", [True, False])
def test_a_lone_statement_returns_its_rows(fixed: bool) -> None:
    statement = ("SELECT %s::integer, n FROM generate_series(1, 3) AS n WHERE n > 1", [7])
    answer = dialects.current().execute_alone(transaction.get_connection(), statement, fixed=fixed)
    assert answer == Answer([(7, 2), (7, 3)], 2)


@pytest.mark.usefixtures("alone")
def test_a_lone_statement_is_written_at_once_and_rolled_back_with_a_transaction() -> None:
    add(1)
    with transaction.atomic():
        add(2)
        transaction.set_rollback(True)
    connection.set_autocommit(False)
    try:
        add(3)
        connection.rollback()
    finally:
        connection.set_autocommit(True)
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        add(4)
        cursor.execute("ROLLBACK")
    assert added() == [1]


@pytest.mark.usefixtures("alone")
def test_a_transaction_goes_on_though_what_was_prepared_before_it_is_gone() -> None:
    add(1)
    connection.connection.execute("SELECT 1", prepare=True)
    with transaction.atomic():
        added()
        transaction.set_rollback(True)
    with transaction.atomic():
        assert added() == [1]
        add(2)
    add(3)
    assert added() == [1, 2, 3]


@pytest.mark.usefixtures("alone")
def test_a_lone_statement_is_seen_by_who_wants_to_see_it() -> None:
    seen = []

    def note(execute: Any, sql: str, *given: Any) -> Any:
        seen.append(sql)
        return execute(sql, *given)

    add(1)
    with connection.execute_wrapper(note):
        add(2)
    with CaptureQueriesContext(connection) as captured:
        add(3)
    assert seen == [ADD]
    assert [query["sql"] for query in captured.captured_queries] == [ADD.replace("%s", "$1")]


@pytest.mark.usefixtures("alone")
def test_after_an_interrupted_lone_statement_the_next_gets_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add(1)
    with monkeypatch.context() as patch:
        patch.setattr(connection.connection, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            add(2)
    add(3)
    assert 3 in added()


@pytest.mark.usefixtures("alone")
def test_a_lone_statement_raises_djangos_errors() -> None:
    add(1)
    with pytest.raises(IntegrityError):
        add(1)
    add(2)
    assert added() == [1, 2]


@unpooled_only
@pytest.mark.usefixtures("alone")
def test_a_connection_of_a_pool_knows_what_it_has_prepared_when_it_comes_again() -> None:
    database = transaction.get_connection()
    add(1)
    first = database.connection
    database.connection = None
    try:
        add(2)
        database.close()
    finally:
        database.connection = first
    add(3)
    assert added() == [1, 2, 3]
    assert len(prepared()) == 1


def end_session() -> None:
    """End the server's session, and let a query notice."""
    process = connection.connection.info.backend_pid
    with psycopg.connect(listen_conninfo(), autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [process])
    with pytest.raises(OperationalError):
        added()


def lose_a_transaction() -> None:
    with transaction.atomic():
        add(1)
        end_session()
        with contextlib.suppress(DatabaseError):
            enqueue("noop")


def lose_without_autocommit() -> None:
    connection.set_autocommit(False)
    add(1)
    end_session()
    with contextlib.suppress(DatabaseError):
        enqueue("noop")
    connection.commit()


@unpooled_only
@pytest.mark.usefixtures("alone", "firm")
@pytest.mark.parametrize("lose", [lose_a_transaction, lose_without_autocommit])
def test_a_transaction_whose_connection_is_lost_does_not_end_as_if_it_were_stored(
    lose: Callable[[], None],
) -> None:
    try:
        with pytest.raises(DatabaseError):
            lose()
    finally:
        connection.close()
        connection.connect()
    assert added() == []


@pytest.mark.usefixtures("firm")
def test_an_error_in_a_transaction_is_the_first_one() -> None:
    """The caller has to see a deadlock or a lock timeout, to repeat the transaction then."""
    with psycopg.connect(listen_conninfo()) as other:
        other.execute("LOCK TABLE tenants_firm IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(OperationalError) as raised:
            enqueue_with_short_lock_waits()
    assert getattr(raised.value.__cause__, "sqlstate", "") == "55P03"


def enqueue_with_short_lock_waits() -> None:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '10ms'")
        enqueue("noop")
