"""Reads the plans of PostgreSQL, and counts the steps of SQLite."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from django.db import connection

from jobs.engine.dialects.base import Statement
from jobs.engine.transactions import fetch, in_transaction


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each node of a plan."""
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


def explained(statement: Statement) -> dict[str, Any]:
    """Run the statement under EXPLAIN, as the engine would run it; return its plan."""
    sql, params = statement
    ((plan,),) = in_transaction(
        lambda: fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", params, prepared=True)
    )
    parsed = json.loads(plan) if isinstance(plan, str) else plan
    top: dict[str, Any] = parsed[0]["Plan"]
    return top


def sqlite_steps(work: Callable[[], object], *, each: int) -> int:
    """Run `work`; return how often SQLite's machine has done `each` more instructions."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.ensure_connection()
    connection.connection.set_progress_handler(count, each)
    try:
        work()
    finally:
        connection.connection.set_progress_handler(None, 0)
    return steps
