"""How the database would run a claim now: its statements, explained and not executed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any

from django.db import connection
from uuid_utils.compat import uuid7

from jobs.engine.claim import claim
from jobs.engine.fair_share import FairShare
from jobs.queries.doctor.base import Finding, Severity, fetch

BATCH = 100
TABLE = "jobs_jobqueue"
# A table of fewer pages (of 8 KB) is read in a millisecond or two whichever index is used, and
# the planner, to which that makes no difference, takes now one and now another.
SMALL_TABLE_PAGES = 200
# The index by which a claim should find jobs, and how it should go back to them to update them.
INDEX = "job_claim"
BY_PLACE = "Tid Scan"
# The index of the admitted jobs of capped firms. Without such firms it is in the plan all the same,
# in a part that is not executed.
OF_CAPPED_FIRMS = "job_admitted"

WHY = (
    "A claim that does not use its index reads the whole backlog, so it costs more the longer the "
    "backlog is."
)
ANALYZE = {"postgresql": f"ANALYZE {TABLE};", "sqlite": "ANALYZE;"}

# This also matches `FOR UPDATE`, which locks rows.
_WRITES = re.compile(r"\b(UPDATE|INSERT|DELETE|COPY)\b")


class _ReachedWrite(Exception):
    """The claim has reached its first write."""


@dataclass
class Explainer:
    """A database wrapper that explains statements on jobs and stops at the first write."""

    plans: list[Any] = field(default_factory=list)
    reached_write: bool = False

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        """Explain the statement; then run it if it only reads."""
        if TABLE in sql:
            how = "(FORMAT JSON)" if connection.vendor == "postgresql" else "QUERY PLAN"
            execute(f"EXPLAIN {how} {sql}", params, many, context)
            self.plans.append(context["cursor"].fetchall())
        if _WRITES.search(sql):
            self.reached_write = True
            raise _ReachedWrite
        return execute(sql, params, many, context)


# The indexes and other scans of one claim's plans, and the rows it would read, None if not estimated.
Plan = tuple[set[str], set[str], float | None]


def check_claim_plan() -> Iterator[Finding]:
    """Say which indexes a claim uses, and how many rows it would read."""
    explainer = Explainer()
    with connection.execute_wrapper(explainer), suppress(_ReachedWrite):
        claim(uuid7(), BATCH, FairShare())
    read = _of_postgresql if connection.vendor == "postgresql" else _of_sqlite
    indexes, scans, rows = read(explainer.plans)
    what = f"A claim of {BATCH} jobs would use {', '.join(sorted(indexes)) or 'no index'}"
    what += f" and read about {rows:,.0f} rows." if rows is not None else "."
    if not explainer.reached_write:
        what += " No job is due, so only the query for work was explained."
    if not scans:
        yield Finding("claim_plan", Severity.OK, what, WHY)
        return
    what = f"A claim would use {', '.join(sorted(scans))}."
    if _table_is_small():
        what += " The table is still small enough for that."
        yield Finding("claim_plan", Severity.OK, what, WHY)
        return
    yield Finding("claim_plan", Severity.PROBLEM, what, WHY, ANALYZE[connection.vendor])


def _table_is_small() -> bool:
    if connection.vendor != "postgresql":
        return False
    ((pages,),) = fetch(f"SELECT pg_relation_size('{TABLE}') / 8192")
    return bool(pages < SMALL_TABLE_PAGES)


def _of_postgresql(plans: list[Any]) -> Plan:
    indexes: set[str] = set()
    scans: set[str] = set()
    rows = 0.0
    for ((document,),) in plans:
        parsed = json.loads(document) if isinstance(document, str) else document
        top = parsed[0]["Plan"]
        for node in _nodes(top):
            if node.get("Relation Name") != TABLE or node["Node Type"] in ("ModifyTable", BY_PLACE):
                continue
            index = node.get("Index Name")
            if index == OF_CAPPED_FIRMS:
                continue
            if index == INDEX:
                indexes.add(index)
            else:
                scans.add(f"{node['Node Type']} by {index}" if index else f"{node['Node Type']}")
        rows += _rows_read(top, inf)
    return indexes, scans, rows


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for inner in node.get("Plans", ()):
        yield from _nodes(inner)


def _rows_read(node: dict[str, Any], most: float) -> float:
    """Return how many rows of jobs are read below a node from which `most` rows are fetched."""
    rows = min(float(node["Plan Rows"]), most)
    if node.get("Relation Name") == TABLE and node["Node Type"] != "ModifyTable":
        return rows
    inner = node.get("Plans", [])
    if node["Node Type"] == "Nested Loop":
        outer = inner[0]
        loops = max(float(outer["Plan Rows"]), 1.0)
        return _rows_read(outer, inf) + loops * sum(_rows_read(one, inf) for one in inner[1:])
    limit = rows if node["Node Type"] in ("Limit", "LockRows", "Result", "Subquery Scan") else inf
    return sum(_rows_read(one, limit) for one in inner)


def _of_sqlite(plans: list[Any]) -> Plan:
    indexes: set[str] = set()
    scans: set[str] = set()
    for plan in plans:
        for *_, detail in plan:
            words = detail.split()
            if words[1:2] not in (["q"], ["j"]) or OF_CAPPED_FIRMS in detail:
                continue
            if words[0] == "SEARCH" and (INDEX in detail or "sqlite_autoindex" in detail):
                indexes.add(INDEX)
            else:
                scans.add(detail)
    return indexes, scans, None
