"""A handler that writes to a second database of the project does so in tests as in a worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import DEFAULT_DB_ALIAS, connections, router, transaction

from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.testing import assert_idempotent, run_job
from tests.jobs.testing.conftest import TWICE, NamePayload

pytestmark = pytest.mark.req("J-27")

told: list[str] = []


class GroupsElsewhere:
    """Routes Django's groups to the second database."""

    def db_for_read(self, model: type[Any], **_: Any) -> str:
        """Return the database of a model's rows."""
        return "second" if model is Group else DEFAULT_DB_ALIAS


@pytest.fixture
def second(tmp_path: Path) -> Iterator[str]:
    """Add a second database to the project for this test."""
    database = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(tmp_path / "second.sqlite3"),
        "OPTIONS": {},
    }
    connections.settings["second"] = {**connections.settings[DEFAULT_DB_ALIAS], **database}
    yield "second"
    connections["second"].close()
    del connections["second"]
    del connections.settings["second"]


@pytest.fixture
def notes(second: str, db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Create a table in the second database, in a transaction; yield what was told at a commit."""
    # Django refuses connections to databases that the test case does not name.
    connections[second].connect()
    with connections[second].cursor() as cursor:
        cursor.execute("CREATE TABLE note (text TEXT UNIQUE)")
    monkeypatch.setattr("tests.jobs.testing.test_second_database.told", [])
    with transaction.atomic(using=second):
        yield told
        transaction.set_rollback(rollback=True, using=second)


def texts() -> list[str]:
    with connections["second"].cursor() as cursor:
        cursor.execute("SELECT text FROM note")
        return [text for (text,) in cursor.fetchall()]


@pytest.fixture(autouse=True)
def kit_note(kit_types: None) -> None:
    """Declare the type that writes to the second database."""

    @job("kit.note", category="sync", payload=NamePayload, retry=TWICE)
    def write_notes(payload: NamePayload, ctx: JobContext) -> None:
        block = transaction.atomic(using="second")
        block.__enter__()
        transaction.on_commit(lambda: told.append(payload.name), using="second")
        with connections["second"].cursor() as cursor:
            for _ in range(payload.options.get("times", 1)):
                cursor.execute("INSERT INTO note VALUES (%s)", [payload.name])
        if not payload.options.get("stays_open"):
            block.__exit__(None, None, None)


def test_its_commit_comes_when_the_handler_has_ended(notes: list[str]) -> None:
    assert run_job("kit.note").status == "completed"
    assert (texts(), told) == (["ada"], ["ada"])


def test_a_block_left_open_there_fails_the_attempt_and_is_undone(notes: list[str]) -> None:
    failed = run_job("kit.note", {"options": {"stays_open": True}})
    assert failed.status == "pending"
    assert "the handler left a transaction open" in failed.last_error
    assert "'second'" in failed.last_error
    assert (texts(), told) == ([], [])


def test_a_statement_that_fails_there_breaks_no_more(notes: list[str]) -> None:
    failed = run_job("kit.note", {"options": {"times": 2, "stays_open": True}})
    assert "UNIQUE" in failed.last_error
    assert run_job("kit.note", {"name": "bob"}).status == "completed"
    assert texts() == ["bob"]


def test_a_database_that_is_barred_to_the_test_is_not_compared(
    second: str, db: None, firm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router, "routers", [GroupsElsewhere()])
    assert_idempotent("kit.add")
    with pytest.raises(AssertionError, match="'second' are not allowed"):
        assert_idempotent("kit.add", only=[Group])
