"""The editor of a stored payload."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminTextareaWidget

from interfaces.strict_json import RepeatedKey, without_repeats
from jobs.admin.base import pretty_json
from jobs.engine.redaction import canonical_json, redact_secrets, restore_redacted

EDITOR_ROWS = 16


class PayloadField(forms.CharField):
    """A JSON object in an editor; None when it is unchanged."""

    def __init__(self, *, rows: int = EDITOR_ROWS, **options: Any) -> None:
        attrs = {"rows": rows, "spellcheck": "false", "class": "queue-code queue-editor"}
        super().__init__(strip=False, widget=UnfoldAdminTextareaWidget(attrs=attrs), **options)
        self.show({})

    def show(self, stored: object) -> None:
        """Start the editor from this payload, with secrets masked."""
        self._stored = stored
        self.initial = pretty_json(stored)

    def clean(self, value: Any) -> dict[str, Any] | None:
        """Return the parsed object with the masked secrets restored; {} for an empty editor.

        Raises:
            ValidationError: not JSON, a key given twice, or no object.
        """
        payload = _read(super().clean(value) or "{}")
        if canonical_json(payload) == canonical_json(redact_secrets(self._stored)):
            return None
        if not isinstance(payload, dict):
            raise forms.ValidationError("The payload must be an object: { … }.")
        whole: dict[str, Any] = restore_redacted(payload, self._stored)
        return whole


def _read(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=without_repeats)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise forms.ValidationError(f"This is not JSON ({place}: {error.msg}).") from error
    except RepeatedKey as error:
        raise forms.ValidationError(f"{error.key}: this key is given twice.") from error
    except (ValueError, RecursionError) as error:
        raise forms.ValidationError("This JSON is too deep or too large.") from error
