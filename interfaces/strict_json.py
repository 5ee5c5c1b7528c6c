"""Refuses JSON objects with a repeated key, which parsers usually accept."""

from __future__ import annotations

from typing import Any

from interfaces.stored_json import presentable


class RepeatedKey(ValueError):
    """An object gives this key twice, so its value is ambiguous."""

    def __init__(self, key: str) -> None:
        self.key: str = presentable(key[:100])
        super().__init__(f"the key {self.key!r} is given twice")


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object; give this to `json.loads` as its `object_pairs_hook`.

    Raises:
        RepeatedKey: two pairs have the same key.
    """
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise RepeatedKey(key)
        found[key] = value
    return found
