"""On PostgreSQL a scope begins its transaction in the message that says which firms it sees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import DataError, OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext
from psycopg import IsolationLevel

from tenants.local_settings import FIRMS_SETTING, set_local
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.support.databases import database_url, postgresql_only, unpooled_only

pytestmark = [pytest.mark.django_db(transaction=True), postgresql_only]


def told(setting: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [setting])
        return str(cursor.fetchone()[0])


@contextmanager
def messages(path: Path) -> Iterator[list[str]]:
    """Yield a list that, at the end of the block, has the messages that this process sent in it."""
    sent: list[str] = []
    client = connection.connection.pgconn
    with path.open("w") as file:
        client.trace(file.fileno())
        try:
            yield sent
        finally:
            client.untrace()
    lines = path.read_text().splitlines()
    sent += [line for line in lines if re.search(r"\tF\t\d+\t(Query|Sync)", line)]


def test_a_scope_takes_one_message_and_its_commit(firm: Firm, tmp_path: Path) -> None:
    connection.ensure_connection()
    with messages(tmp_path / "trace") as sent, firm_scope(firm):
        pass
    begin, commit = sent
    assert "BEGIN" in begin
    assert f"{{{firm.pk}}}" in begin
    assert "COMMIT" in commit


def test_it_is_a_transaction_that_sees_the_firm_and_ends_with_the_scope(firm: Firm) -> None:
    with firm_scope(firm):
        assert told(FIRMS_SETTING) == f"{{{firm.pk}}}"
        with firm_scope(firm.pk + 1):
            assert told(FIRMS_SETTING) == f"{{{firm.pk + 1}}}"
        assert told(FIRMS_SETTING) == f"{{{firm.pk}}}"
    assert told(FIRMS_SETTING) == ""


@pytest.mark.parametrize("value", ["it's", "a\\'b", "%s", "ü; ROLLBACK"])
def test_any_value_arrives_as_it_is(value: str) -> None:
    with transaction.atomic():
        set_local("mailroom.test", value, jit="off")
        assert (told("mailroom.test"), told("jit")) == (value, "off")


def test_a_value_that_the_server_refuses_is_its_error_and_ends_the_transaction() -> None:
    with pytest.raises(DataError, match="jit"), transaction.atomic():
        set_local("jit", "perhaps")
    assert connection.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_the_isolation_that_a_project_asks_for_is_kept(firm: Firm) -> None:
    connection.ensure_connection()
    connection.connection.isolation_level = IsolationLevel.SERIALIZABLE
    try:
        with firm_scope(firm):
            assert told("transaction_isolation") == "serializable"
            assert told(FIRMS_SETTING) == f"{{{firm.pk}}}"
    finally:
        connection.close()


def test_captured_queries_include_the_setting_of_the_scope(firm: Firm) -> None:
    with CaptureQueriesContext(connection) as queries, firm_scope(firm):
        pass
    assert any(FIRMS_SETTING in one["sql"] for one in queries)


def test_an_execute_wrapper_sees_the_setting_of_the_scope(firm: Firm) -> None:
    seen: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(f"{sql} {params}")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note), firm_scope(firm):
        pass
    assert any(FIRMS_SETTING in one for one in seen)


def test_a_scope_in_another_one_begins_no_transaction(firm: Firm) -> None:
    warnings: list[str | None] = []
    connection.ensure_connection()
    client = connection.connection
    client.add_notice_handler(lambda notice: warnings.append(notice.message_primary))
    with firm_scope(firm), firm_scope(firm.pk + 1):
        pass
    assert warnings == []


def test_outside_a_transaction_nothing_begins_and_nothing_stays() -> None:
    def set_twice() -> None:
        try:
            for _ in range(2):
                set_local(FIRMS_SETTING, "all")
                status = connection.connection.info.transaction_status
                assert status == psycopg.pq.TransactionStatus.IDLE
                assert told(FIRMS_SETTING) == ""
        finally:
            connection.close()

    # A new thread has no connection yet.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(set_twice).result()


@unpooled_only
def test_a_connection_that_was_cut_is_an_operational_error(firm: Firm) -> None:
    connection.ensure_connection()
    process = connection.connection.info.backend_pid
    with psycopg.connect(database_url(), autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", [process])
    with pytest.raises(OperationalError), firm_scope(firm):
        pass
    with firm_scope(firm):
        assert told(FIRMS_SETTING) == f"{{{firm.pk}}}"
