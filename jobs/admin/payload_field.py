"""The editor of a stored payload."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminTextareaWidget

from jobs.admin.base import pretty_json
from jobs.masks import mask_secrets, spelled, unmask

EDITOR_ROWS = 16


class PayloadField(forms.CharField):
    """A JSON object in an editor; None when it is what the editor showed."""

    def __init__(self) -> None:
        attrs = {"rows": EDITOR_ROWS, "spellcheck": "false", "class": "queue-code queue-editor"}
        super().__init__(
            strip=False,
            widget=UnfoldAdminTextareaWidget(attrs=attrs),
            help_text="Checked against the schema of its type. What changes is kept in the audit "
            "log. Hidden secrets stay as they are where you leave them in their place.",
        )
        self._stored: object = None

    def show(self, stored: object) -> None:
        """Let the editor start from this payload, its secrets hidden."""
        self._stored = stored
        self.initial = pretty_json(stored)

    def clean(self, value: Any) -> dict[str, Any] | None:
        """Return the object, read, with the secrets that the editor hid.

        Raises:
            ValidationError: not JSON, or no object.
        """
        try:
            payload = json.loads(super().clean(value))
        except json.JSONDecodeError as error:
            place = f"line {error.lineno}, column {error.colno}"
            raise forms.ValidationError(f"This is not JSON ({place}: {error.msg}).") from error
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError("This JSON is too deep or too large.") from error
        if not isinstance(payload, dict):
            raise forms.ValidationError("The payload must be an object: { … }.")
        if spelled(payload) == spelled(mask_secrets(self._stored)):
            return None
        whole: dict[str, Any] = unmask(payload, self._stored)
        return whole
