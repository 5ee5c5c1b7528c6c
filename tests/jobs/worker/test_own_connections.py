"""On SQLite the worker's own threads keep their connections; the threads of handlers do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection

from jobs.worker.state import refresh_connection, refresh_own_connection
from tests.concurrency.test_admission import in_thread

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.req("W-06"),
    pytest.mark.skipif(connection.vendor != "sqlite", reason="on PostgreSQL settings keep them"),
]


def is_kept(refresh: Callable[[], None], before: Callable[[], None] = lambda: None) -> bool:
    """Say whether a thread still has the same connection after `before` and `refresh`."""

    def work() -> bool:
        connection.ensure_connection()
        refresh_own_connection()
        first = connection.connection
        before()
        refresh()
        connection.ensure_connection()
        return bool(connection.connection is first)

    return bool(in_thread(work))


def test_the_workers_own_threads_keep_theirs() -> None:
    assert is_kept(refresh_own_connection)


def test_a_handlers_is_closed_with_all_that_it_left_in_it() -> None:
    assert not is_kept(lambda: refresh_connection(ask=True))


def test_one_that_failed_is_replaced() -> None:
    def fail() -> None:
        connection.errors_occurred = True

    assert not is_kept(refresh_own_connection, fail)


@pytest.mark.parametrize("replaced", [True, False])
def test_one_whose_file_was_replaced_or_removed_is_replaced(replaced: bool, tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite3"
    if replaced:
        other.touch()

    def move() -> None:
        # For this thread, that is as if its file had been replaced or removed.
        connection.settings_dict = {**connection.settings_dict, "NAME": str(other)}

    assert not is_kept(refresh_own_connection, move)
