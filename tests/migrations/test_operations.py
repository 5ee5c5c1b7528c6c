"""The operations that spare Django from building models change what those they hold would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, models
from django.db.migrations import AlterField, CreateModel
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState, StateApps

from interfaces.migration_operations import AlterFieldTexts, CreateModels

# What a field is called, explained by and offered as is nothing to its column.
TEXTS = {"help_text", "verbose_name", "choices"}


def changes_of_texts() -> Iterator[tuple[Any, Any, AlterField]]:
    """Yield each field that a migration says to change in its texts alone, before and after."""
    loader = MigrationLoader(None)
    for (app, name), migration in loader.disk_migrations.items():
        for operation in migration.operations:
            if isinstance(operation, AlterFieldTexts):
                before = loader.project_state((app, name), at_end=False)
                for change in operation.state_operations:
                    model = before.models[app, change.model_name_lower]
                    yield model.fields[change.name], change.field, change


def test_where_texts_are_altered_the_columns_stay() -> None:
    changes = list(changes_of_texts())
    assert len(changes) > 100
    for before, after, change in changes:
        assert kind(before) == kind(after), change.describe()


def kind(field: models.Field[Any, Any]) -> tuple[Any, ...]:
    _, path, arguments, options = field.deconstruct()
    return path, arguments, {name: options[name] for name in options.keys() - TEXTS}


@pytest.fixture
def shelves() -> CreateModels:
    """Return the creation of two models, of which one refers to the other."""
    key = ("id", models.BigAutoField(primary_key=True))
    shelf = models.ForeignKey("library.Shelf", on_delete=models.CASCADE)
    return CreateModels(
        [
            CreateModel("Shelf", [key]),
            CreateModel("Book", [key, ("shelf", shelf), ("title", models.TextField())]),
        ]
    )


@pytest.mark.django_db(transaction=True)
def test_models_are_created_together_and_taken_back(shelves: CreateModels) -> None:
    before = ProjectState()
    after = before.clone()
    shelves.state_forwards("library", after)
    with connection.schema_editor() as editor:
        shelves.database_forwards("library", editor, before, after)
    Shelf, Book = (after.apps.get_model("library", name) for name in ("Shelf", "Book"))  # noqa: N806
    Book.objects.create(shelf=Shelf.objects.create(), title="Middlemarch")
    assert Shelf.objects.filter(book__title="Middlemarch").exists()
    with connection.schema_editor() as editor:
        shelves.database_backwards("library", editor, after, before)
    assert not {"library_shelf", "library_book"} & set(connection.introspection.table_names())


@pytest.mark.parametrize("texts_too", [False, True])
def test_each_model_is_built_once(
    shelves: CreateModels, texts_too: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = ProjectState()
    assert state.apps
    built: list[str] = []
    build = StateApps.render_multiple

    def counted(apps: StateApps, states: list[Any]) -> None:
        built.extend(one.name for one in states)
        build(apps, states)

    monkeypatch.setattr(StateApps, "render_multiple", counted)
    shelves.state_forwards("library", state)
    if texts_too:
        explained = models.TextField(help_text="As on the cover.")
        state.apps.get_model("library", "book")
        built.clear()
        AlterFieldTexts([AlterField("Book", "title", explained)] * 3).state_forwards(
            "library", state
        )
    book = state.apps.get_model("library", "book")
    assert sorted(built) == ["Book", "Shelf"]
    assert book._meta.get_field("title").help_text == ("As on the cover." if texts_too else "")
