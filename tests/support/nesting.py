"""Data nested as deeply as a test wants."""

from __future__ import annotations

from typing import Any


def nested(levels: int) -> Any:
    """Return nested lists, of which the innermost is empty."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value
