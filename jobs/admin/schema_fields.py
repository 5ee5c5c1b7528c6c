"""Form fields from the schema of a job type's payload."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminTextareaWidget

from interfaces.stored_json import presentable
from interfaces.strict_json import RepeatedKey, without_repeats
from jobs.registry import JobPayload, JobType

Schema = Mapping[str, Any]
ENVELOPE = JobPayload.model_fields.keys()
# The help texts of fields that take text of a certain form.
_FORMATS = {
    "uuid": "An id, such as 0192f0c1-5a3e-7c4d-8b1a-2f6d9e0c7a55.",
    "date": "A date, such as 2026-12-31.",
    "date-time": "A time with its zone, such as 2026-12-31T09:00:00Z.",
    "time": "A time of day, such as 09:00:00.",
    "duration": "A duration, such as PT5M.",
}


class JSONAnswer(forms.CharField):
    """Any JSON, in an editor."""

    def __init__(self, **options: Any) -> None:
        attrs = {"rows": 4, "spellcheck": "false", "class": "queue-code queue-editor"}
        super().__init__(strip=False, widget=UnfoldAdminTextareaWidget(attrs=attrs), **options)

    def to_python(self, value: Any) -> Any:
        """Return the JSON's value, None for an empty editor.

        Raises:
            ValidationError: it is not JSON.
        """
        text = (super().to_python(value) or "").strip()
        try:
            return json.loads(text, object_pairs_hook=without_repeats) if text else None
        except RepeatedKey as error:
            raise forms.ValidationError(f"{error.key}: this key is given twice.") from error
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(f"This is not JSON: {error}.") from error

    def prepare_value(self, value: Any) -> Any:
        """Show a typed text unchanged, and a default value as JSON."""
        if value is None or isinstance(value, str):
            return value
        return json.dumps(presentable(value), ensure_ascii=False, indent=2)


def schema_fields(declared: JobType) -> dict[str, forms.Field]:
    """Return a field for each field of the type's payload, except those of the envelope."""
    schema = declared.payload_model.model_json_schema()
    required, definitions = schema.get("required", []), schema.get("$defs", {})
    return {
        name: _field(name, _resolved(one, definitions), is_required=name in required)
        for name, one in schema["properties"].items()
        if name not in ENVELOPE
    }


def given(field: forms.Field, value: Any) -> bool:
    """Say whether a cleaned value was given; for an empty field the schema's default applies."""
    return isinstance(field, forms.BooleanField) or value not in (None, "")


def _resolved(schema: Schema, definitions: Schema) -> dict[str, Any]:
    """Return the schema of one field without references and without the option of null."""
    described = {key: schema[key] for key in ("description", "default") if key in schema}
    options = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    if len(options) == 1:
        return _resolved(options[0], definitions) | described | {"nullable": True}
    reference = schema.get("$ref") or (schema.get("allOf") or [{}])[0].get("$ref")
    if reference is not None:
        return _resolved(definitions[reference.rpartition("/")[2]], definitions) | described
    if options and all(one.get("type") in ("number", "string") for one in options):
        # A decimal number, which a float would round.
        return {"type": "string", **described}
    return dict(schema)


def _field(name: str, schema: Schema, *, is_required: bool) -> forms.Field:
    options: dict[str, Any] = {
        "label": name.replace("_", " ").capitalize(),
        "help_text": " ".join(_hints(schema)),
        "required": is_required,
        "initial": schema.get("default"),
    }
    if "enum" in schema or "const" in schema:
        return _choice(schema.get("enum") or [schema["const"]], options)
    kind = schema.get("type")
    if kind == "boolean":
        if schema.get("nullable"):
            return _choice([True, False], options)
        return forms.BooleanField(**{**options, "required": False})
    if kind == "integer":
        options |= {"min_value": schema.get("minimum"), "max_value": schema.get("maximum")}
    makers: dict[object, Callable[..., forms.Field]] = {
        "integer": forms.IntegerField,
        "number": forms.FloatField,
        "string": forms.CharField,
    }
    return makers.get(kind, JSONAnswer)(**options)


def _choice(values: list[Any], options: dict[str, Any]) -> forms.TypedChoiceField:
    choices = [(json.dumps(value), str(value)) for value in values]
    initial = options.pop("initial")
    return forms.TypedChoiceField(
        **options,
        initial=None if initial is None else json.dumps(initial),
        coerce=json.loads,
        empty_value=None,
        choices=choices if options["required"] else [("", "Not given"), *choices],
    )


def _hints(schema: Schema) -> list[str]:
    hints = [schema.get("description", ""), _FORMATS.get(schema.get("format", ""), "")]
    if schema.get("type") in ("array", "object"):
        hints.append(f"JSON: {'a list' if schema['type'] == 'array' else 'an object'}.")
    return [hint for hint in hints if hint]
