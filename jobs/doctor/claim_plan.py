"""What the database would do for a claim now: the real statements, explained and not run."""

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

from jobs.doctor.finding import Finding, Severity
from jobs.doctor.safely import fetch
from jobs.engine.claim import claim
from jobs.engine.fair_share import FairShare

BATCH = 100
TABLE = "jobs_jobqueue"
# Below this many pages (of 8 KB) reading the whole table is the better plan, and a passing one.
SMALL_TABLE_PAGES = 100
# By which a claim may find jobs, and then write them.
INDEXES = frozenset({"job_claim", f"{TABLE}_pkey"})
# By which it finds what a capped firm may start; where no firm is, it is planned for and not gone.
OF_CAPPED_FIRMS = "job_admitted"

WHY = "A claim by another way than its index reads the backlog, and costs more the longer it is."
ANALYZE = {"postgresql": f"ANALYZE {TABLE};", "sqlite": "ANALYZE;"}

# Also `FOR UPDATE`: it locks rows.
_WRITES = re.compile(r"\b(UPDATE|INSERT|DELETE|COPY)\b")


class _Enough(Exception):
    """The claim has come to what it would write."""


@dataclass
class Explainer:
    """Stands between the engine and the database: explains what reads jobs, stops what writes."""

    plans: list[Any] = field(default_factory=list)
    came_to_write: bool = False

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        """Explain the statement; then run it if it only reads."""
        if TABLE in sql:
            how = "(FORMAT JSON)" if connection.vendor == "postgresql" else "QUERY PLAN"
            execute(f"EXPLAIN {how} {sql}", params, many, context)
            self.plans.append(context["cursor"].fetchall())
        if _WRITES.search(sql):
            self.came_to_write = True
            raise _Enough
        return execute(sql, params, many, context)


@dataclass(frozen=True)
class Plan:
    """What the plans of one claim come to; `rows` None where the database does not estimate."""

    ways: list[str]
    detours: list[str]
    rows: float | None


def look() -> Iterator[Finding]:
    """Say by which way a claim finds its jobs, and what it would read."""
    explainer = Explainer()
    with connection.execute_wrapper(explainer), suppress(_Enough):
        claim(uuid7(), BATCH, FairShare())
    plan = (_of_postgresql if connection.vendor == "postgresql" else _of_sqlite)(explainer.plans)
    what = f"A claim of {BATCH} goes by {', '.join(plan.ways) or 'no index'}"
    what += f" and would touch about {plan.rows:,.0f} rows." if plan.rows is not None else "."
    if not explainer.came_to_write:
        what += " Nothing is due, so only the look for work was explained."
    if not plan.detours:
        yield Finding("claim_plan", Severity.OK, what, WHY)
        return
    what = f"A claim would go by {', '.join(plan.detours)}."
    if _table_is_small():
        what += " The table is small enough for that."
        yield Finding("claim_plan", Severity.OK, what, WHY)
        return
    yield Finding("claim_plan", Severity.PROBLEM, what, WHY, ANALYZE[connection.vendor])


def _table_is_small() -> bool:
    if connection.vendor != "postgresql":
        return False
    ((pages,),) = fetch(f"SELECT pg_relation_size('{TABLE}') / 8192")
    return bool(pages < SMALL_TABLE_PAGES)


def _of_postgresql(plans: list[Any]) -> Plan:
    ways: set[str] = set()
    detours: set[str] = set()
    rows = 0.0
    for ((document,),) in plans:
        parsed = json.loads(document) if isinstance(document, str) else document
        top = parsed[0]["Plan"]
        for node in _nodes(top):
            if node.get("Relation Name") != TABLE or node["Node Type"] == "ModifyTable":
                continue
            index = node.get("Index Name")
            if index == OF_CAPPED_FIRMS:
                continue
            if index in INDEXES:
                ways.add(index)
            else:
                detours.add(f"{node['Node Type']} by {index}" if index else f"{node['Node Type']}")
        rows += _touched(top, inf)
    return Plan(sorted(ways), sorted(detours), rows)


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for inner in node.get("Plans", ()):
        yield from _nodes(inner)


def _touched(node: dict[str, Any], most: float) -> float:
    """Return how many rows of jobs are read below a node of which `most` rows are asked."""
    rows = min(float(node["Plan Rows"]), most)
    if node.get("Relation Name") == TABLE and node["Node Type"] != "ModifyTable":
        return rows
    inner = node.get("Plans", [])
    if node["Node Type"] == "Nested Loop":
        outer = inner[0]
        loops = max(float(outer["Plan Rows"]), 1.0)
        return _touched(outer, inf) + loops * sum(_touched(one, inf) for one in inner[1:])
    passed_on = (
        rows if node["Node Type"] in ("Limit", "LockRows", "Result", "Subquery Scan") else inf
    )
    return sum(_touched(one, passed_on) for one in inner)


def _of_sqlite(plans: list[Any]) -> Plan:
    ways: set[str] = set()
    detours: set[str] = set()
    for plan in plans:
        for *_, detail in plan:
            words = detail.split()
            if words[1:2] not in (["q"], ["j"]) or OF_CAPPED_FIRMS in detail:
                continue
            if words[0] == "SEARCH" and ("job_claim" in detail or "sqlite_autoindex" in detail):
                ways.add("job_claim")
            else:
                detours.add(detail)
    return Plan(sorted(ways), sorted(detours), None)
