"""What people see in place of secrets, and how it leaves again what they send back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from interfaces.stored_json import presentable
from jobs.errors import Fault
from jobs.payload_validator import MAX_FAULTS, SECRET_KEYS

MASK = "••••••"
Mask = Callable[[object], object]


def mask_secrets(value: object) -> Any:
    """Return JSON data fit to be shown, with the values of secret keys replaced at any depth."""
    return _without_secrets(presentable(value))


def mask_values(value: object) -> Any:
    """Return JSON data with its form alone to be seen: every value in it is replaced."""
    return _without_values(presentable(value))


def unmask(edited: Any, original: object) -> Any:
    """Return what somebody made of `mask_secrets(original)`, with what it hid put back in place.

    A mask that was moved, or written anew, stays: `mask_faults` finds it.
    """
    return _put_back(edited, mask_secrets(original), original)


def mask_faults(value: object) -> list[Fault]:
    """Name the fields that hold the mask itself, which stands for a secret and is none."""
    message = "is the mask that hides a secret: give the secret itself"
    paths = islice(_masked_paths(presentable(value), ""), MAX_FAULTS)
    return [Fault(path, "masked", message) for path in paths]


def spelled(value: object) -> str:
    """Return JSON data as text that is the same for the same data: true is not 1 here."""
    return json.dumps(presentable(value), sort_keys=True)


def _without_secrets(value: object) -> object:
    if isinstance(value, dict):
        return {
            key: MASK if key.casefold() in SECRET_KEYS else _without_secrets(item)
            for key, item in value.items()
        }
    return [_without_secrets(item) for item in value] if isinstance(value, list) else value


def _without_values(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_values(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_values(item) for item in value]
    return None if value is None else MASK


def _masked_paths(value: object, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _masked_paths(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _masked_paths(item, f"{path}[{index}]")
    elif value == MASK:
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
        entries = set(map(spelled, shown))
        return [
            # One that moved here would get its neighbour's secret.
            item
            if spelled(item) != spelled(here) and spelled(item) in entries
            else _put_back(item, here, hidden)
            for item, here, hidden in zip(edited, shown, original, strict=True)
        ]
    return original if spelled(edited) == spelled(shown) else edited
