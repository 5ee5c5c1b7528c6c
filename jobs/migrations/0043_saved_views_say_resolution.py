"""Saved views of dead letters narrow by `resolution`, which was called `decision`."""

from __future__ import annotations

from typing import Any

from django.db import migrations

from tenants.local_settings import FIRMS_SETTING


def say_resolution(state: Any, schema_editor: Any) -> None:
    _rename(state, schema_editor, "decision", "resolution")


def say_decision(state: Any, schema_editor: Any) -> None:
    _rename(state, schema_editor, "resolution", "decision")


def _rename(state: Any, schema_editor: Any, before: str, after: str) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"SELECT set_config('{FIRMS_SETTING}', 'all', true)")
    views = state.get_model("jobs", "SavedView").objects.using(schema_editor.connection.alias)
    for view in views.filter(listing="dead_letters"):
        if before in view.parameters:
            view.parameters = {
                after if name == before else name: value for name, value in view.parameters.items()
            }
            view.save(update_fields=["parameters"])


class Migration(migrations.Migration):
    dependencies = [("jobs", "0042_one_wording_of_help_texts")]

    operations = [migrations.RunPython(say_resolution, say_decision)]
