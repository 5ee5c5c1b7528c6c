"""A migration of several indexes that broke off is run again: nothing has to be tidied before."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from django.db import IntegrityError, connection, models
from django.db.migrations import CreateModel
from django.db.migrations.state import ProjectState

from tests.queue_kit import table_rows
from tests.support.databases import postgresql_only

AddIndexInPassing = import_module("jobs.migrations.0011_lanes").AddIndexInPassing

pytestmark = [pytest.mark.django_db(transaction=True), postgresql_only]

INDEX = models.Index(fields=["title"], name="book_title")


@pytest.fixture
def library() -> Iterator[ProjectState]:
    """Create a table of two books of one title; yield the state with it."""
    before = ProjectState()
    fields = [("id", models.BigAutoField(primary_key=True)), ("title", models.TextField())]
    create = CreateModel("Book", fields)
    state = before.clone()
    create.state_forwards("library", state)
    with connection.schema_editor() as editor:
        create.database_forwards("library", editor, before, state)
    book: Any = state.apps.get_model("library", "book")
    book.objects.bulk_create([book(title="Emma"), book(title="Emma")])
    yield state
    with connection.schema_editor() as editor:
        create.database_backwards("library", editor, state, before)


def build(state: ProjectState) -> None:
    operation = AddIndexInPassing("book", INDEX)
    after = state.clone()
    operation.state_forwards("library", after)
    with connection.schema_editor(atomic=False) as editor:
        operation.database_forwards("library", editor, state, after)


def built() -> list[Any]:
    return table_rows(
        "SELECT indexrelid::regclass::text, indisvalid, indisunique FROM pg_index"
        " WHERE indrelid = 'library_book'::regclass AND NOT indisprimary"
    )


def test_an_index_that_an_earlier_run_has_built_stays(library: ProjectState) -> None:
    build(library)
    before = table_rows("SELECT 'book_title'::regclass::oid")
    build(library)
    assert table_rows("SELECT 'book_title'::regclass::oid") == before


def test_an_index_whose_build_broke_off_is_built_anew(library: ProjectState) -> None:
    with connection.cursor() as cursor, pytest.raises(IntegrityError):
        # As after a deadlock, or when the server stops.
        cursor.execute("CREATE UNIQUE INDEX CONCURRENTLY book_title ON library_book (title)")
    assert [tuple(row) for row in built()] == [("book_title", False, True)]
    build(library)
    assert [tuple(row) for row in built()] == [("book_title", True, False)]
