"""Masks secrets in JSON before it is shown, and puts them back into an edit of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from interfaces.redaction import is_secret_key
from interfaces.stored_json import presentable
from jobs.errors import Fault
from jobs.registry.payload import MAX_FAULTS

REDACTED_VALUE = "••••••"
Redactor = Callable[[object], object]


def redact_secrets(value: object) -> Any:
    """Return JSON data fit to be shown, with the values of secret keys replaced at any depth.

    `is_secret_key` says which keys are.
    """
    return _without_secrets(presentable(value))


def redact_values(value: object) -> Any:
    """Return JSON data with every value replaced: only its structure is shown."""
    return _without_values(presentable(value))


def restore_redacted(edited: Any, original: object) -> Any:
    """Return an edit of `redact_secrets(original)`, with the hidden values put back.

    A mask that was moved or typed stays: `redaction_faults` finds it.
    """
    return _put_back(edited, redact_secrets(original), original)


def redaction_faults(value: object) -> list[Fault]:
    """Return a fault for each field that holds a mask instead of a value."""
    message = "is the mask that hides a secret: give the secret itself"
    paths = islice(_mask_paths(presentable(value), ""), MAX_FAULTS)
    return [Fault(path, "masked", message) for path in paths]


def canonical_json(value: object) -> str:
    """Return JSON text that is equal for equal data only: true is not 1 here."""
    return json.dumps(presentable(value), sort_keys=True)


def _without_secrets(value: object) -> object:
    if isinstance(value, dict):
        return {
            key: REDACTED_VALUE if is_secret_key(key) else _without_secrets(item)
            for key, item in value.items()
        }
    return [_without_secrets(item) for item in value] if isinstance(value, list) else value


def _without_values(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_values(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_values(item) for item in value]
    return None if value is None else REDACTED_VALUE


def _mask_paths(value: object, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _mask_paths(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _mask_paths(item, f"{path}[{index}]")
    elif value == REDACTED_VALUE:
        yield path


def _put_back(edited: Any, shown: object, original: Any) -> Any:
    if isinstance(edited, dict) and isinstance(shown, dict):
        return {
            key: _put_back(item, shown[key], original[key])
            if key in shown and key in original
            else item
            for key, item in edited.items()
        }
    if isinstance(edited, list) and isinstance(shown, list) and len(edited) == len(shown):
        entries = set(map(canonical_json, shown))
        return [
            # An entry that was moved here is not filled in: it would get its neighbour's secret.
            item
            if canonical_json(item) != canonical_json(here) and canonical_json(item) in entries
            else _put_back(item, here, hidden)
            for item, here, hidden in zip(edited, shown, original, strict=True)
        ]
    return original if canonical_json(edited) == canonical_json(shown) else edited
