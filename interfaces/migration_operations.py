"""Migration operations on many models or fields, which Django would take one by one.

Django keeps models built as the migrations describe them. After each operation it builds anew those
that are related to what it changed, which is nearly all: `migrate` of an empty database took
thirteen seconds, eleven of them for that. These operations forget the built models, so that Django
builds them once, when they are needed next.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import AlterField, CreateModel, SeparateDatabaseAndState
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState


class AlterFieldTexts(SeparateDatabaseAndState):
    """Change help texts, labels and choices of fields, which are nothing to the database."""

    def __init__(self, fields: Sequence[AlterField]) -> None:
        super().__init__(state_operations=fields)

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Change the fields of the models that the migrations describe."""
        _forget_built_models(state)
        super().state_forwards(app_label, state)

    def describe(self) -> str:
        """Return what `migrate --plan` says."""
        return f"Alter the texts of {len(self.state_operations)} fields"


class CreateModels(Operation):
    """Create models; one may refer to those before it."""

    def __init__(self, models: Sequence[CreateModel]) -> None:
        self.models = models

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Add the models to those that the migrations describe."""
        _forget_built_models(state)
        for model in self.models:
            model.state_forwards(app_label, state)

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Create the tables in order."""
        for model in self.models:
            model.database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Drop the tables, the last one first."""
        for model in reversed(self.models):
            model.database_backwards(app_label, schema_editor, from_state, to_state)

    def describe(self) -> str:
        """Return what `migrate --plan` says."""
        return f"Create {len(self.models)} models"


def _forget_built_models(state: ProjectState) -> None:
    state.__dict__.pop("apps", None)
