"""The doctor behind PgBouncer: it notices the pooler, and LISTEN that goes through it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from django.db import connection

from jobs.queries.doctor import Severity
from tests.jobs.queries.doctor.kit import findings, ill, only_ill
from tests.support.databases import database_url, default_database, postgresql_only, unpooled_only
from tests.support.pgbouncer import PROGRAM, pgbouncer
from tests.support.proxy import proxied

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.req("O-06"),
    postgresql_only,
    pytest.mark.skipif(PROGRAM is None, reason="PgBouncer is not installed"),
]

Pooled = Callable[[str], AbstractContextManager[str]]


@pytest.fixture
def pooled(db: None) -> Pooled:
    """Return a context manager that puts PgBouncer between, in a given mode; it yields its URL."""

    @contextmanager
    def in_mode(mode: str) -> Iterator[str]:
        with proxied() as proxy, pgbouncer(proxy, mode) as (_, url), default_database(url):
            yield url

    return in_mode


def mode() -> str:
    """Return what the doctor says of how the service is connected."""
    (found,) = findings("pooling.mode")
    return found.what


@unpooled_only
def test_listening_through_a_pooler_is_a_problem_and_a_direct_address_mends_it(
    pooled: Pooled, settings: Any
) -> None:
    direct = database_url()
    with pooled("transaction") as url:
        assert "changes sessions after each transaction" in mode()
        found = only_ill("pooling")
        assert (found.id, found.severity) == ("pooling.listen", Severity.PROBLEM)
        assert found.mend.startswith("LISTEN_DATABASE_URL=")
        settings.LISTEN_DATABASE_URL = url
        assert only_ill("pooling").what == "LISTEN_DATABASE_URL leads to a pooler, too."
        settings.LISTEN_DATABASE_URL = direct
        assert ill("pooling") == []
        settings.LISTEN_DATABASE_URL = "off"
        assert ill("pooling") == []
        settings.LISTEN_DATABASE_URL = "postgres://nobody@127.0.0.1:1/nothing"
        assert "Connecting to LISTEN_DATABASE_URL failed" in only_ill("pooling").what
    settings.LISTEN_DATABASE_URL = ""
    assert mode() == "The service is connected directly to PostgreSQL."


@unpooled_only
def test_a_pooler_that_keeps_sessions_is_told_from_one_that_does_not(pooled: Pooled) -> None:
    with pooled("session"):
        assert "seems to keep one session per client" in mode()


@unpooled_only
def test_statements_that_are_planned_each_time_are_noticed(pooled: Pooled, settings: Any) -> None:
    settings.LISTEN_DATABASE_URL = ""
    assert ill("pooling") == []
    connection.connection.prepare_threshold = None
    found = only_ill("pooling")
    assert (found.id, found.severity) == ("pooling.prepared", Severity.NOTICE)
    assert '"prepare_threshold": 3' in found.mend
    # Without LISTEN the database may be a pooler, which forgets prepared statements.
    settings.LISTEN_DATABASE_URL = "off"
    assert ill("pooling") == []
    connection.close()
    settings.LISTEN_DATABASE_URL = ""
    with pooled("session"):
        (seen,) = findings("pooling.prepared")
        assert "planned again every time" in seen.what
        assert "pooling.prepared" not in [found.id for found in ill("pooling")]
