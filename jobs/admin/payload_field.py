"""The editor of a stored payload, and the form that changes a job."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminTextareaWidget

from interfaces.admin.operations import OperationForm
from interfaces.strict_json import RepeatedKey, without_repeats
from jobs.admin.base import pretty_json
from jobs.engine.redaction import canonical_json, redact_secrets, restore_redacted
from jobs.models import JobQueue
from jobs.states import PRIORITY_CHOICES, Priority

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
            raise forms.ValidationError("This must be an object: { … }.")
        whole: dict[str, Any] = restore_redacted(payload, self._stored)
        return whole


class PayloadForm(OperationForm):
    """The payload of a job, to be edited."""

    payload = PayloadField(
        help_text="The payload is checked against the schema of its type. Changes are kept in the "
        "audit log. To keep a hidden secret, leave its mask in place."
    )

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Start from the job's payload."""
        self.fields["payload"].show(self.job_of(row).payload)  # type: ignore[attr-defined]  # a payload field

    def job_of(self, row: Any) -> JobQueue:
        """Return the job that the row is, or is about."""
        job: JobQueue = row
        return job


class JobChangesForm(PayloadForm):
    """The payload and priority of a job, to be edited."""

    priority = forms.TypedChoiceField(required=False, coerce=int, empty_value=None)

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Start from the job's payload and priority."""
        super().prepare(request, row)
        now = Priority(self.job_of(row).priority).word
        self.fields["priority"].choices = [  # type: ignore[attr-defined]  # a choice field
            ("", f"Unchanged ({now})"),
            *PRIORITY_CHOICES,
        ]


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
