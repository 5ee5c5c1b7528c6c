"""Limits hold whatever isolation level the server, the role or the project sets."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from psycopg import IsolationLevel

from jobs.engine import admission
from jobs.models import JobQueue
from tenants.models import Firm
from tenants.scope import all_firms
from tests.support.databases import is_waited_for, postgresql_only, unpooled_only
from tests.support.waiting import wait_until

pytestmark = [
    postgresql_only,
    unpooled_only,
    pytest.mark.django_db(transaction=True),
    pytest.mark.req("J-23"),
]

Add = Callable[..., Any]


def by_server() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_isolation TO 'repeatable read'")


def by_project() -> None:
    connection.ensure_connection()
    connection.connection.isolation_level = IsolationLevel.REPEATABLE_READ


@pytest.mark.parametrize("set_level", [by_server, by_project])
def test_a_cap_holds_where_transactions_are_repeatable_reads(
    firm: Firm, add: Add, monkeypatch: pytest.MonkeyPatch, set_level: Callable[[], None]
) -> None:
    def sweep() -> int:
        try:
            set_level()
            return admission.sweep()
        finally:
            connection.close()

    monkeypatch.setattr(admission, "LOCK_TIMEOUT_MILLISECONDS", 60_000)
    Firm.objects.filter(pk=firm.pk).update(running_cap=1)
    add()
    second = add()
    with ThreadPoolExecutor(1) as pool:
        with all_firms("test"):
            Firm.objects.select_for_update(no_key=True).get(pk=firm.pk)
            JobQueue.objects.filter(pk=second).update(ready=True, waiting=False, admitted=True)
            admitted = pool.submit(sweep)
            wait_until(is_waited_for, "the sweep waits for the firm's row")
        assert admitted.result() == 0
    with all_firms("test"):
        assert JobQueue.objects.filter(ready=True).count() == 1
