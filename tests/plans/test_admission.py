"""Admission stays cheap: it never reads all of a group's backlog, whoever else waits or claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from jobs.engine.admission import Sweep, admit, sweep
from jobs.engine.dialects.base import Statement
from jobs.engine.locks import ReleasedCapacity, WaitingGroup
from jobs.engine.token_bucket import note_starts
from jobs.engine.transactions import in_transaction, run
from jobs.queue import pause, set_rate_limit
from jobs.states import CountedBy, Status
from tenants.models import Firm
from tests.queue_kit import table_rows
from tests.support.backlog import Server, analyze
from tests.support.plans import explained, nodes, sqlite_steps

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("no_autovacuum"),
    pytest.mark.req("J-20", "J-24"),
]

# How many jobs wait for one thing: in the suite, and in `make chaos`.
SUITE, CHAOS = 5_000, 100_000
OTHERS = 40
CAP = 5

on_postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="asks PostgreSQL's own statistics"
)
on_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="asks SQLite's own planner")


@pytest.fixture
def many(chaos: bool) -> int:
    """Return how many jobs wait for one thing."""
    return CHAOS if chaos else SUITE


def fill(
    firm: Firm,
    count: int,
    *,
    key: str | None = None,
    limit_key: str | None = None,
    status: Status = Status.PENDING,
    lock_counted_by: str = "firm",
) -> None:
    """Let `count` jobs of the firm wait; "{n}" in a key is the number of the job."""
    new_id = {
        "postgresql": "gen_random_uuid()",
        "sqlite": "lower(hex(randomblob(16)))",
    }[connection.vendor]
    in_transaction(
        lambda: run(
            f"""
            WITH RECURSIVE number (n) AS (
                SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < %s
            )
            INSERT INTO jobs_jobqueue (job_id, firm_id, category, job_type, payload_version,
                payload, correlation_id, lock_key, limit_key, ready, waiting, status,
                lock_counted_by)
            SELECT {new_id}, %s, 'maintenance', 'noop', '1.0', '{{}}', 'c',
                replace(%s, '{{n}}', CAST(n AS text)), replace(%s, '{{n}}', CAST(n AS text)),
                false, %s, %s, %s
            FROM number
            """,
            [
                *(count, firm.pk, key, limit_key),
                *(status == Status.PENDING, status.value, lock_counted_by),
            ],
        )
    )


def wait_for_a_key(firm: Firm, many: int) -> None:
    fill(firm, many, key="key")


def wait_for_a_token(firm: Firm, many: int) -> None:
    set_rate_limit("noop", 1, 10_000, firm=firm)
    fill(firm, many)


def wait_for_the_firm(firm: Firm, many: int) -> None:
    Firm.objects.filter(pk=firm.pk).update(running_cap=1)
    fill(firm, many)


def cost(work: Callable[[], object]) -> int:
    """Return what `work` reads: pages of the table of jobs, or steps of SQLite's machine."""
    if connection.vendor == "postgresql":
        before = _pages()
        work()
        return _pages() - before
    return sqlite_steps(work, each=100)


def _pages() -> int:
    table_rows("SELECT pg_stat_force_next_flush()::text")
    connection.close()
    ((pages,),) = table_rows(
        "SELECT heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read"
        " FROM pg_statio_user_tables WHERE relname = 'jobs_jobqueue'"
    )
    return int(pages)


@pytest.mark.parametrize("backlog", [wait_for_a_key, wait_for_a_token, wait_for_the_firm])
def test_a_backlog_that_waits_costs_others_nothing(
    firm: Firm, other_firm: Firm, backlog: Callable[[Firm, int], None], many: int
) -> None:
    server = Server()

    def serve_others() -> None:
        assert Sweep().step() == OTHERS
        claims = server.claim(OTHERS)
        assert {one.firm_id for one in claims} == {other_firm.pk}
        assert len(server.finish(claims)) == OTHERS

    # Instead of the backlog there are as many finished jobs, so that the indexes are as deep.
    fill(firm, many, status=Status.COMPLETED)
    fill(other_firm, OTHERS, key="first-{n}")
    analyze()
    without = cost(serve_others)

    backlog(firm, many)
    assert sweep() == 1
    assert [one.firm_id for one in server.claim(1)] == [firm.pk]
    assert sweep() == 0
    fill(other_firm, OTHERS, key="second-{n}")
    analyze()
    beside = cost(serve_others)

    assert beside <= 2 * without, (without, beside)


def test_a_backlog_of_one_limit_key_costs_the_others_of_its_firm_nothing(
    firm: Firm, many: int
) -> None:
    server = Server()

    def serve_others() -> None:
        assert Sweep().step() == OTHERS
        assert len(server.finish(server.claim(OTHERS))) == OTHERS

    fill(firm, many, status=Status.COMPLETED)
    fill(firm, OTHERS, limit_key="first-{n}")
    analyze()
    without = cost(serve_others)

    pause(limit_key="mailbox", firm=firm, reason="refused credentials")
    fill(firm, many, limit_key="mailbox")
    assert sweep() == 0
    fill(firm, OTHERS, limit_key="second-{n}")
    analyze()
    beside = cost(serve_others)
    assert beside <= 2 * without, (without, beside)


def admissions(work: Callable[[], object]) -> list[Statement]:
    """Return the statements that read candidates for admission, and those that follow."""
    looks: list[Statement] = []

    def note(execute: Any, sql: str, params: Any, *given: Any) -> Any:
        if "jobs_jobqueue q" in sql and sql.lstrip().startswith(("SELECT", "WITH")):
            looks.append((sql, params))
        return execute(sql, params, *given)

    with connection.execute_wrapper(note):
        work()
    assert any("RECURSIVE waiting_group" in sql for sql, _ in looks)
    return looks


@pytest.fixture
def crowd(firm: Firm, other_firm: Firm, many: int) -> Firm:
    """Let a capped firm and another one wait: jobs of one key, of one type, and of many keys."""
    Firm.objects.filter(pk=firm.pk).update(running_cap=CAP)
    set_rate_limit("noop", 1, 10_000, firm=other_firm)
    for one in (firm, other_firm):
        fill(one, many, key="key")
        fill(one, many)
        fill(one, OTHERS, key="key-{n}")
        fill(one, many, key="provider", lock_counted_by="all_firms")
        fill(one, OTHERS, limit_key="mailbox-{n}")
    analyze()
    return firm


def by_sweep(firm: Firm) -> Callable[[], object]:
    return Sweep().step


def by_hand_over(firm: Firm) -> Callable[[], object]:
    released_capacity = ReleasedCapacity(
        frozenset([(firm.pk, "key")]), frozenset([WaitingGroup(firm.pk, "key-7", "noop", "")])
    )
    return lambda: admit(released_capacity)


def by_turns(firm: Firm) -> Callable[[], object]:
    released_capacity = ReleasedCapacity(keys_of_all_firms=frozenset([(firm.pk, "provider")]))
    return lambda: admit(released_capacity)


WAYS = [by_sweep, by_hand_over, by_turns]


@on_postgresql
@pytest.mark.parametrize("way", WAYS)
def test_admission_takes_the_waiting_index_and_reads_a_few_entries_a_group(crowd, way):
    for look in admissions(way(crowd)):
        walked: list[dict[str, Any]] = [
            node
            for node in nodes(explained(look))
            if node.get("Relation Name") == "jobs_jobqueue" and node["Actual Loops"]
        ]
        used = {node.get("Index Name") for node in walked}
        assert used <= {
            "job_waiting_group", "jobs_jobqueue_pkey", "job_claim", "job_lane", "job_admitted",
        }, used  # fmt: skip
        touched = sum(
            (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            for node in walked
        )
        # For each group: the step to it, one entry for each of four priorities, and the row itself.
        assert touched <= 6 * 2 * (2 * OTHERS + 2) + 2 * CAP, look


@on_sqlite
@pytest.mark.parametrize("way", WAYS)
def test_every_look_of_an_admission_goes_by_an_index(crowd, way):
    for look in admissions(way(crowd)):
        sql, params = look
        rows = table_rows(f"EXPLAIN QUERY PLAN {sql}", params)
        details = [row[-1] for row in rows]
        of_jobs = [text for text in details if {"q", "n", "c"} & set(text.split()[1:2])]
        assert of_jobs
        assert all(text.startswith("SEARCH") for text in of_jobs), details
        # Only short lists may be sorted: a job's limits, and the jobs of a firm that are admitted.
        limits = {parent for _, parent, _, text in rows if text.split()[1:2] == ["l"]}
        admitted = {parent for _, parent, _, text in rows if "INDEX job_admitted" in text}
        sorts = {(parent, text) for _, parent, _, text in rows if "TEMP B-TREE" in text}
        may_sort = {(parent, "USE TEMP B-TREE FOR ORDER BY") for parent in limits}
        may_sort |= {(parent, "USE TEMP B-TREE FOR GROUP BY") for parent in admitted}
        assert sorts <= may_sort, details


def test_no_limits_cost_a_claim_nothing(firm: Firm) -> None:
    """If nothing is held back, the guard asks three questions per statement, not per job."""
    fill(firm, 200)
    sweep()
    server = Server()
    few, many = cost(lambda: server.claim(10)), cost(lambda: server.claim(100))
    assert many < 15 * few


def test_noting_starts_reads_each_admitted_job_once(firm: Firm, many: int) -> None:
    """Neither finished jobs nor the number of buckets make it cost more."""
    set_rate_limit("noop", 1, 10_000, firm=firm, counted_by=CountedBy.KEY)

    def admit_others(key: str, count: int) -> None:
        fill(firm, count, limit_key=key)
        assert sweep() == count
        analyze()

    admit_others("first-{n}", OTHERS)
    few = cost(note_starts)
    fill(firm, many, status=Status.COMPLETED)
    admit_others("second-{n}", 9 * OTHERS)
    assert cost(note_starts) <= 15 * few
