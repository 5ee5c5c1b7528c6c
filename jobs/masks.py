"""What people see in place of secrets, and how it leaves again what they send back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jobs.errors import Fault
from jobs.payload_validator import SECRET_KEYS

MASK = "••••••"
Mask = Callable[[object], object]


def mask_secrets(value: object) -> Any:
    """Return JSON data with the values of secret keys replaced, at any depth."""
    if isinstance(value, Mapping):
        return {
            key: MASK if str(key).casefold() in SECRET_KEYS else mask_secrets(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [mask_secrets(item) for item in value]
    return value


def mask_values(value: object) -> object:
    """Return JSON data with its form alone to be seen: every value in it is replaced."""
    if isinstance(value, Mapping):
        return {key: mask_values(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mask_values(item) for item in value]
    return None if value is None else MASK


def unmask(edited: Any, original: object) -> Any:
    """Return what somebody made of `mask_secrets(original)`, with what it hid put back in place.

    A mask that was moved, or written anew, stays: `mask_faults` finds it.
    """
    return _put_back(edited, mask_secrets(original), original)


def mask_faults(value: object, path: str = "") -> Iterator[Fault]:
    """Name the fields that hold the mask itself, which stands for a secret and is none."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from mask_faults(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from mask_faults(item, f"{path}[{index}]")
    elif value == MASK:
        yield Fault(path, "masked", "is the mask that hides a secret: give the secret itself")


def spelled(value: object) -> str:
    """Return JSON data as text that is the same for the same data: true is not 1 here."""
    return json.dumps(value, sort_keys=True)


def _put_back(edited: Any, shown: object, original: Any) -> Any:
    if isinstance(edited, dict) and isinstance(shown, dict):
        return {
            key: _put_back(item, shown[key], original[key]) if key in shown else item
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
