"""Data that is nested as deeply as a test wants it."""

from __future__ import annotations

from typing import Any


def nested(levels: int) -> Any:
    """Return lists in lists, the innermost empty."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value
