"""The claim stays cheap: which index it uses, how many rows it reads, which columns it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.db.models import F, Func

from jobs.engine import fair_share as engine_fair_share
from jobs.engine.claim import claim
from jobs.engine.dialects.base import Statement
from jobs.engine.fair_share import FairShare
from jobs.management.benchmarks import rows
from jobs.management.benchmarks.rows import Kind
from jobs.models import JobQueue
from jobs.queue import EnqueueSpec, enqueue_many, pause
from tenants.models import Firm
from tenants.scope import all_firms
from tests.queue_kit import new_worker, table_rows
from tests.support.backlog import analyze, fill, make_firms
from tests.support.plans import explained, nodes, sqlite_steps

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("no_autovacuum"),
    pytest.mark.req("J-08"),
]

BACKLOG = 20_000
FIRMS = 100
BATCH = 100

# The columns that a claim writes. No index may have one of them, also not in its condition.
CLAIM_WRITES = {
    "status", "attempts", "claimed_at", "started_at", "lease_token", "worker_id", "updated_at",
}  # fmt: skip

on_postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="asks PostgreSQL's own statistics"
)
on_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="asks SQLite's own planner")


@pytest.fixture
def backlog(firm: Firm) -> Firm:
    """Put one firm's 20,000 jobs before those of 100 firms with one job each."""
    fill({firm.pk: BACKLOG}, age_seconds=86_400)
    fill(dict.fromkeys(make_firms(FIRMS), 1))
    return firm


def claim_statements(
    taken: int = BATCH,
    worker_id: UUID | None = None,
    fair_share: FairShare | None = None,
    **named: tuple[str, ...],
) -> list[Statement]:
    """Claim; return the statements of scan and take, without those of the transaction."""
    seen: list[Statement] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "jobs_jobqueue" in sql:
            seen.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        assert (
            len(claim(worker_id or new_worker(), BATCH, fair_share or FairShare(), **named))
            == taken
        )
    return seen


@dataclass(frozen=True)
class Effort:
    """The cost of statements: the indexes used, the entries and rows read, the pages touched."""

    indexes: set[str]
    touched: float
    pages: int


def effort(statements: list[Statement]) -> Effort:
    """Explain and add up the statements; no plan may read the whole table or sort the backlog."""
    indexes: set[str] = set()
    touched = 0.0
    pages = 0
    for statement in statements:
        plan = list(nodes(explained(statement)))
        scans = [
            node
            for node in plan
            if node.get("Relation Name") == "jobs_jobqueue" and node["Actual Loops"]
        ]
        assert not [node for node in scans if node["Node Type"] in ("Seq Scan", "Bitmap Heap Scan")]
        indexes |= {node["Index Name"] for node in scans if "Index Name" in node}
        touched += sum(
            (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            for node in scans
        )
        pages += plan[0]["Shared Hit Blocks"] + plan[0]["Shared Read Blocks"]
    return Effort(indexes, touched, pages)


# Two rows per firm for the scan, and two per job to pick and write; the backlog adds nothing.
FEW_ROWS = 4 * (FIRMS + 1) + 4 * BATCH
FEW_PAGES = 10_000


@on_postgresql
def test_a_claim_takes_the_claim_index_and_touches_what_it_claims(backlog):
    spent = effort(claim_statements())
    assert spent.indexes == {"job_claim"}
    assert spent.touched <= FEW_ROWS
    assert spent.pages < FEW_PAGES


@on_postgresql
@pytest.mark.parametrize(
    "named",
    [
        {"categories": ("maintenance",)},
        {"job_types": ("bench_noop", "noop")},
        {"categories": ("maintenance", "sync"), "job_types": ("noop",)},
    ],
)
def test_a_claim_of_some_kinds_of_jobs_touches_nothing_of_the_others(backlog, named):
    rows.fill({backlog.pk: BACKLOG}, Kind(job_type="other", category="export", age_seconds=99_999))
    analyze()
    spent = effort(claim_statements(**named))
    assert spent.indexes == {"job_lane"}
    assert spent.touched <= FEW_ROWS
    assert spent.pages < FEW_PAGES


@on_postgresql
@pytest.mark.req("J-23")
@pytest.mark.parametrize("stop", ["cap", "inactive", "pause"])
def test_the_backlog_of_a_firm_that_was_just_stopped_is_not_scanned(backlog, stop):
    match stop:
        case "cap":
            Firm.objects.filter(pk=backlog.pk).update(running_cap=1)
        case "inactive":
            Firm.objects.filter(pk=backlog.pk).update(active=False)
        case "pause":
            pause(firm=backlog, reason="test")
    spent = effort(claim_statements())
    assert spent.touched <= FEW_ROWS
    assert spent.pages < FEW_PAGES


@on_postgresql
def test_a_take_leaves_out_a_firm_that_was_stopped_since_the_scan(backlog):
    _, take = claim_statements()
    Firm.objects.filter(pk=backlog.pk).update(running_cap=1)
    assert effort([take]).touched <= FEW_ROWS


@on_postgresql
@pytest.mark.req("J-23")
def test_a_few_urgent_jobs_are_claimed_without_a_scan_of_all_others(backlog):
    fill({backlog.pk: 1}, priority=0)
    statements = claim_statements(taken=1)
    fill({backlog.pk: 1}, priority=0)
    plans = [list(nodes(explained(statement))) for statement in statements]
    steps = sum(
        node["Actual Rows"] * node["Actual Loops"]
        for plan in plans
        for node in plan
        if node.get("Index Name") == "job_claim"
    )
    assert steps <= 12


@pytest.fixture
def in_flight(backlog, monkeypatch) -> tuple[UUID, FairShare]:
    """Claim 4,000 jobs; return the worker, and the fair share with which the next claim goes on."""
    # No backlog may be over only because the machine is slow.
    monkeypatch.setattr(engine_fair_share, "BACKLOG_SECONDS", 3600.0)
    with all_firms("test"):
        JobQueue.objects.exclude(firm=backlog).delete()
    worker_id, fair_share = new_worker(), FairShare()
    for _ in range(8):
        claim(worker_id, 500, fair_share)
    analyze()
    return worker_id, fair_share


@on_postgresql
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_claim_that_goes_on_in_a_backlog_passes_nothing_in_flight(in_flight, goes_on):
    worker_id, fair_share = in_flight
    spent = effort(
        claim_statements(worker_id=worker_id, fair_share=fair_share if goes_on else None)
    )
    assert spent.indexes == {"job_claim"}
    # EXPLAIN runs the pick once more, behind the jobs that the claim has taken.
    assert (spent.touched <= 4 * BATCH) is goes_on


@on_postgresql
def test_claims_are_hot_updates(backlog):
    def updates() -> tuple[int, int]:
        table_rows("SELECT pg_stat_force_next_flush()::text")
        connection.close()
        ((all_, hot),) = table_rows(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
            " WHERE relname = 'jobs_jobqueue'"
        )
        return all_, hot

    before_all, before_hot = updates()
    fair_share, worker_id = FairShare(), new_worker()
    claimed = sum(len(claim(worker_id, 500, fair_share)) for _ in range(4))
    after_all, after_hot = updates()
    assert claimed > 1_000
    assert after_all - before_all == claimed
    assert after_hot - before_hot >= 0.95 * claimed


SOME_KINDS = {"categories": ("maintenance",), "job_types": ("noop", "other")}


@on_sqlite
@pytest.mark.parametrize(
    ("named", "indexes"),
    [({}, {"job_claim", "job_admitted"}), (SOME_KINDS, {"job_lane", "job_admitted"})],
)
def test_every_statement_of_a_claim_uses_an_index(backlog, named, indexes):
    statements = claim_statements(**named)
    assert statements
    allowed = {*indexes, "sqlite_autoindex"}
    for statement in statements:
        sql, params = statement
        details = [row[-1] for row in table_rows(f"EXPLAIN QUERY PLAN {sql}", params)]
        of_jobs = [text for text in details if {"q", "j"} & set(text.split()[1:2])]
        assert of_jobs
        assert all(text.startswith("SEARCH") for text in of_jobs), details
        assert all(any(index in text for index in allowed) for text in of_jobs), details
        assert not [text for text in details if "TEMP B-TREE" in text], details


@on_sqlite
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_claim_that_goes_on_takes_few_steps(in_flight, goes_on):
    worker_id, fair_share = in_flight
    steps = sqlite_steps(
        lambda: claim(worker_id, BATCH, fair_share if goes_on else FairShare()), each=1_000
    )
    assert (steps < 60) is goes_on, steps


@on_sqlite
@pytest.mark.parametrize("state", ["one line", "capped", "other kinds"])
def test_the_backlog_does_not_grow_the_work_of_a_claim(backlog, state):
    named: dict[str, tuple[str, ...]] = {}
    if state == "capped":
        Firm.objects.filter(pk=backlog.pk).update(running_cap=1)
    if state == "other kinds":
        rows.fill({backlog.pk: BACKLOG}, Kind(job_type="zzz", category="export", age_seconds=9e4))
        named = SOME_KINDS
    worker_id, claims = new_worker(), []
    steps = sqlite_steps(
        lambda: claims.extend(claim(worker_id, BATCH, FairShare(), **named)), each=1_000
    )
    assert len(claims) == BATCH
    assert steps < 200


def test_no_index_names_a_column_that_a_claim_writes():
    for index in [*JobQueue._meta.indexes, *JobQueue._meta.constraints]:
        if getattr(index, "fields", None) is None:
            continue
        condition = getattr(index, "condition", None)
        named = {*index.fields, *(name for name, _ in getattr(condition, "children", []))}
        for expression in getattr(index, "expressions", ()):
            parts = (
                [expression, *expression.get_source_expressions()]
                if isinstance(expression, Func)
                else [expression]
            )
            named |= {part.name for part in parts if isinstance(part, F)}
        assert not named & CLAIM_WRITES, index.name


def test_the_claim_writes_what_is_listed_here_and_nothing_else(firm):
    enqueue_many([EnqueueSpec("noop")], firm=firm)
    with all_firms("test"):
        before = JobQueue.objects.values().get()
    claim(new_worker(), 1, FairShare())
    with all_firms("test"):
        after = JobQueue.objects.values().get()
    assert {name for name in before if before[name] != after[name]} <= CLAIM_WRITES


@pytest.mark.req("J-01")
def test_the_table_has_ten_indexes_and_no_more():
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, "jobs_jobqueue")
    indexed = {
        name
        for name, about in found.items()
        if about["index"] or about["unique"] or about["primary_key"]
    }
    assert len(indexed) == 10, indexed
    assert indexed > {
        "job_claim", "job_lane", "job_waiting_group", "job_admitted", "job_firm", "job_user", "job_expiry",
        "job_live_key_once", "job_without_result",
    }  # fmt: skip
