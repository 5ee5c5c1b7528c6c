"""Statements that are sent in one message: what they return, and what is left if one fails."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection

from jobs.engine import dialects
from jobs.engine.dialects.postgresql_pipeline import Pipeline
from jobs.engine.wakeup import listen_conninfo
from tests.support.databases import interrupted, postgresql_only, unpooled_only

pytestmark = [postgresql_only, pytest.mark.django_db(transaction=True)]

ID = UUID("0190a6c6-7b1e-7c4e-8a55-0123456789ab")


@pytest.fixture
def raw() -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(listen_conninfo(), autocommit=True, prepare_threshold=1) as opened:
        opened.execute("CREATE TEMPORARY TABLE kept (number integer PRIMARY KEY)")
        yield opened


@pytest.fixture
def pipeline(raw: psycopg.Connection[Any]) -> Pipeline:
    return Pipeline(raw)


def kept(raw: psycopg.Connection[Any]) -> list[int]:
    return [number for (number,) in raw.execute("SELECT number FROM kept ORDER BY 1")]


def test_each_statement_returns_its_rows(pipeline: Pipeline) -> None:
    moment = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    answers = pipeline.run(
        [
            ("SELECT %s::uuid, %s::text, %b::bigint[], NULL", [ID, "100 %", [1, None, 2**40]]),
            ("INSERT INTO kept VALUES (%s::integer)", [1]),
            ("SELECT %s::timestamptz, 7 %% 4 WHERE %s::boolean", [moment, True]),
            ("SELECT 1 WHERE false", []),
        ]
    )
    assert [answer.rows for answer in answers] == [
        [(ID, "100 %", [1, None, 2**40], None)],
        [],
        [(moment, 3)],
        [],
    ]
    assert [answer.touched for answer in answers] == [1, 1, 1, 0]


@unpooled_only
def test_a_statement_is_prepared_once_for_the_same_types(
    raw: psycopg.Connection[Any], pipeline: Pipeline
) -> None:
    for value in (1, 2, 2**40, 3):
        assert pipeline.run([("SELECT %s::bigint", [value])]) == [([(value,)], 1)]
    names = raw.execute("SELECT name FROM pg_prepared_statements WHERE name LIKE 'mailroom%'")
    # A number as large as 2**40 is sent with another type.
    assert len(names.fetchall()) == 2


def test_after_a_rollback_it_is_prepared_again(
    raw: psycopg.Connection[Any], pipeline: Pipeline
) -> None:
    add = "INSERT INTO kept VALUES (%s::integer)"
    pipeline.run([(add, [1])])
    # psycopg deallocates all statements after a rollback if it has prepared one itself.
    raw.execute("SELECT 1", prepare=True)
    with raw.transaction(force_rollback=True):
        raw.execute("SELECT 1")
    assert raw.execute("SELECT 1 FROM pg_prepared_statements WHERE name LIKE 'mail%'").rowcount == 0
    pipeline.run([(add, [2]), (add, [3])])
    assert kept(raw) == [1, 2, 3]


def test_behind_a_pooler_nothing_is_prepared(
    raw: psycopg.Connection[Any], pipeline: Pipeline
) -> None:
    raw.prepare_threshold = None
    for value in ("a", "b"):
        assert pipeline.run([("SELECT %s::text", [value])]) == [([(value,)], 1)]
    names = raw.execute("SELECT name FROM pg_prepared_statements WHERE name LIKE 'mailroom%'")
    assert names.fetchall() == []


def test_they_are_one_transaction(raw: psycopg.Connection[Any], pipeline: Pipeline) -> None:
    pipeline.run([("INSERT INTO kept VALUES (1)", [])])
    with pytest.raises(psycopg.errors.UniqueViolation):
        pipeline.run(
            [
                ("INSERT INTO kept VALUES (%s::integer)", [2]),
                ("INSERT INTO kept VALUES (%s::integer)", [1]),
                ("INSERT INTO kept VALUES (%s::integer)", [3]),
            ]
        )
    assert kept(raw) == [1]
    # Statements prepared before the error are used again, and the others are prepared now.
    pipeline.run([("INSERT INTO kept VALUES (%s::integer)", [4])])
    assert kept(raw) == [1, 4]


def test_a_statement_the_server_cannot_read_names_its_error(
    raw: psycopg.Connection[Any], pipeline: Pipeline
) -> None:
    for _ in range(2):
        with pytest.raises(psycopg.errors.UndefinedTable):
            pipeline.run([("INSERT INTO kept VALUES (1)", []), ("SELECT * FROM nowhere", [])])
    assert kept(raw) == []


def test_an_error_at_the_commit_is_raised(raw: psycopg.Connection[Any], pipeline: Pipeline) -> None:
    raw.execute(
        "CREATE TEMPORARY TABLE refers (number integer REFERENCES kept DEFERRABLE INITIALLY DEFERRED)"
    )
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        pipeline.run([("INSERT INTO refers VALUES (7) RETURNING number", [])])
    assert raw.execute("SELECT * FROM refers").fetchall() == []
    pipeline.run([("INSERT INTO kept VALUES (7)", []), ("INSERT INTO refers VALUES (7)", [])])
    assert kept(raw) == [7]


@unpooled_only
def test_a_statement_goes_on_after_what_it_returns_has_changed(
    raw: psycopg.Connection[Any], pipeline: Pipeline
) -> None:
    every = "SELECT * FROM kept"
    pipeline.run([("INSERT INTO kept VALUES (1)", []), (every, [])])
    raw.execute("ALTER TABLE kept ADD COLUMN name text DEFAULT 'Ada'")
    assert pipeline.run([(every, [])]) == [([(1, "Ada")], 1)]


def test_after_an_interrupted_one_the_next_gets_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dialect, statement = dialects.current(), ("SELECT %s::integer", [7])
    assert dialect.fetch_prepared([statement]) == [(7,)]
    with monkeypatch.context() as patch:
        patch.setattr(connection.connection, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            dialect.fetch_prepared([statement])
    assert dialect.fetch_prepared([statement]) == [(7,)]


def test_a_value_that_cannot_be_sent_leaves_the_connection_as_it_was(
    raw: psycopg.Connection[Any], pipeline: Pipeline
) -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        pipeline.run([("INSERT INTO kept VALUES (1)", []), ("SELECT %s::text", ["a\0b"])])
    assert raw.pgconn.pipeline_status == psycopg.pq.PipelineStatus.OFF
    assert kept(raw) == []


def test_much_is_sent_and_received(pipeline: Pipeline) -> None:
    large = os.urandom(4_000_000).hex()
    count = "SELECT sum(length(one))::bigint FROM unnest(%b::text[]) AS one"
    answers = pipeline.run([("SELECT %s::text", [large]), (count, [[large] * 3])])
    assert answers == [([(large,)], 1), ([(24_000_000,)], 1)]


@unpooled_only
def test_a_session_that_is_ended_meanwhile_raises(
    raw: psycopg.Connection[Any], pipeline: Pipeline
) -> None:
    process = raw.info.backend_pid
    with psycopg.connect(listen_conninfo(), autocommit=True) as other:

        def end() -> None:
            asleep = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
            while not other.execute(asleep, [process]).fetchall():
                pass
            other.execute("SELECT pg_terminate_backend(%s)", [process])

        thread = threading.Thread(target=end)
        thread.start()
        with pytest.raises(psycopg.OperationalError):
            pipeline.run([("SELECT 1 FROM pg_sleep(60)", [])])
        thread.join()
    assert raw.closed
    with pytest.raises(psycopg.OperationalError):
        pipeline.run([("SELECT 1", [])])


def test_an_interrupted_one_closes_the_connection(
    raw: psycopg.Connection[Any], pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pipeline.run([("SELECT 1", [])])
    assert raw.closed


@unpooled_only
def test_who_wants_to_see_the_statements_sees_each() -> None:
    seen = []

    def note(execute: Any, sql: str, *given: Any) -> Any:
        seen.append(sql)
        return execute(sql, *given)

    dialect, statement = dialects.current(), ("SELECT %s::integer", [7])
    assert dialect.fetch_prepared([statement, statement]) == [(7,), (7,)]
    with connection.execute_wrapper(note):
        assert dialect.fetch_prepared([statement, statement]) == [(7,), (7,)]
    assert [sql for sql in seen if "integer" in sql] == [statement[0]] * 2
    assert sum("set_config" in sql for sql in seen) == 1


def test_a_new_connection_knows_nothing_of_the_last() -> None:
    dialect, statement = dialects.current(), ("SELECT %s::integer", [7])
    assert dialect.fetch_prepared([statement]) == [(7,)]
    connection.close()
    assert dialect.fetch_prepared([statement]) == [(7,)]
