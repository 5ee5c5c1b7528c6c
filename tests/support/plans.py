"""Reading what PostgreSQL says it will do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Walk a plan."""
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)
