"""The doctor on PostgreSQL: each fault is made, found, and mended by the SQL of its finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection
from django.utils import timezone

from jobs.engine.wakeup import main_conninfo
from jobs.models import JobQueue, Worker
from jobs.queries.doctor import (
    Finding,
    Severity,
    base,
    clocks,
    connections,
    examination,
    schema,
    snapshots,
    vacuum,
)
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.jobs import WorkerFactory
from tests.jobs.queries.doctor.kit import execute, findings, ill, mend, only_ill
from tests.postgres import postgres_server
from tests.queue_kit import table_rows
from tests.support.backlog import fill
from tests.support.databases import (
    default_database,
    empty_database,
    postgresql_only,
    unpooled_only,
)
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-06"), postgresql_only]

# How many sessions hide their statistics from the role that asks.
UNSEEN = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND query = '<insufficient privilege>'
"""

Answer = Callable[[Any, str, list[tuple[Any, ...]]], None]


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Return a function that replaces the answer to one query of a check."""

    def pretend(module: Any, query: str, rows: list[tuple[Any, ...]]) -> None:
        real = module.fetch
        monkeypatch.setattr(
            module, "fetch", lambda sql, *rest: rows if query in sql else real(sql, *rest)
        )

    return pretend


@pytest.fixture(autouse=True)
def young_table(answer: Answer) -> None:
    """Report a table without updates, because other tests have updated the real one."""
    answer(vacuum, "pg_stat_user_tables", [(0, 0, 0, 0, None)])


@pytest.fixture
def holder() -> Iterator[psycopg.Connection[Any]]:
    """Return a session that holds a snapshot."""
    with closing(psycopg.connect(main_conninfo(), application_name="report of Bob")) as session:
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        session.execute("SELECT 1")
        yield session


def test_a_fresh_database_is_well() -> None:
    assert ill() == []
    assert {one.id.partition(".")[0] for one in findings()} == set(examination.CHECKS["postgresql"])


@unpooled_only
@pytest.mark.django_db(transaction=True)
def test_an_old_snapshot_is_named_and_the_sql_ends_it(
    holder: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "NOTICE_SECONDS", 0.0)
    pid = holder.info.backend_pid

    def told() -> list[Finding]:
        # The session of another test may be closed and not ended yet.
        return [one for one in ill("snapshots") if f"Session {pid} of role " in one.what]

    (young,) = told()
    assert young.severity is Severity.NOTICE
    assert "(report of Bob)" in young.what
    assert "idle in transaction" in young.what
    monkeypatch.setattr(snapshots, "ALERT_SECONDS", 0.0)
    (old,) = told()
    assert (old.severity, old.mend) == (
        Severity.PROBLEM,
        f"SELECT pg_terminate_backend({pid});",
    )
    mend(old)
    wait_until(lambda: not told(), "the session has ended")


def test_a_prepared_transaction_and_a_slot_nobody_reads_are_named(answer: Answer) -> None:
    answer(snapshots, "pg_prepared_xacts", [("it's lost", "ada", 7_200.0)])
    found = only_ill("snapshots.prepared")
    assert (found.severity, found.what) == (
        Severity.PROBLEM,
        "Prepared transaction it's lost of role ada has held a snapshot for 2 h.",
    )
    assert found.mend == "ROLLBACK PREPARED 'it''s lost';"
    answer(snapshots, "pg_replication_slots", [("standby", False, 12), ("live", True, 12)])
    slot = only_ill("snapshots.slot")
    assert "Replication slot standby has no reader" in slot.what
    assert slot.mend.startswith("SELECT pg_drop_replication_slot('standby')")


def test_sessions_that_a_role_may_not_see_are_told_of(answer: Answer) -> None:
    answer(snapshots, "insufficient privilege", [(3,)])
    found = only_ill("snapshots.hidden")
    assert found.severity is Severity.NOTICE
    assert found.what == "3 sessions of other roles are hidden from this role."
    assert found.mend.startswith("GRANT pg_read_all_stats TO ")


def test_an_autovacuum_is_no_session_that_hides() -> None:
    with postgres_server() as server:
        folder, port = server.place
        own = f"host={folder} port={port} user=postgres dbname=postgres"
        with closing(psycopg.connect(own, autocommit=True)) as superuser:
            superuser.execute("ALTER SYSTEM SET autovacuum_naptime = '1s'")
            # The vacuum is so slow that it still runs when the session looks for it.
            superuser.execute("ALTER SYSTEM SET autovacuum_vacuum_cost_delay = '100ms'")
            superuser.execute("ALTER SYSTEM SET autovacuum_vacuum_cost_limit = 1")
            superuser.execute("SELECT pg_reload_conf()")
        with closing(psycopg.connect(server.url, autocommit=True)) as session:
            session.execute("CREATE TABLE padded AS SELECT n FROM generate_series(1, 99999) AS n")
            session.execute("DELETE FROM padded")

            def told_of() -> tuple[int, int]:
                # One transaction gives both queries the same view of the sessions.
                with session.transaction():
                    (unseen,) = session.execute(UNSEEN).fetchone() or (0,)
                    (hidden,) = session.execute(snapshots.HIDDEN).fetchone() or (0,)
                return unseen, hidden

            seen = wait_until(lambda: (told := told_of())[0] and told, "a vacuum runs")
            assert seen[1] == 0


@pytest.mark.parametrize(
    "damage",
    [
        "ALTER TABLE jobs_jobqueue RESET (fillfactor)",
        "ALTER TABLE jobs_jobqueue SET (autovacuum_vacuum_threshold = 100000)",
        "ALTER TABLE jobs_worker SET (autovacuum_enabled = false)",
    ],
)
def test_settings_other_than_the_migrations_are_given_back(damage: str) -> None:
    execute(damage)
    found = only_ill("vacuum")
    assert found.severity is Severity.PROBLEM
    mend(found)
    assert ill("vacuum") == []


@pytest.mark.parametrize(
    ("rows", "name", "severity"),
    [
        ((10, 99_999, 0, 0, None), "", None),
        ((500_000, 200_000, 0, 0, None), "", None),
        ((10, 200_000, 0, 0, "2026-01-01 00:00:00"), "vacuum.dead_rows", Severity.NOTICE),
        ((10, 2_000_000, 0, 0, None), "vacuum.dead_rows", Severity.PROBLEM),
        ((10, 0, 50_000, 25_000, None), "", None),
        ((10, 0, 50_000, 10_000, None), "vacuum.hot_updates", Severity.NOTICE),
        ((10, 0, 5_000, 10, None), "", None),
    ],
)
def test_dead_rows_and_hot_updates_are_judged(
    rows: tuple[Any, ...], name: str, severity: Severity | None, answer: Answer
) -> None:
    answer(vacuum, "pg_stat_user_tables", [rows])
    assert [(one.id, one.severity) for one in ill("vacuum")] == ([(name, severity)] * bool(name))


def test_an_index_much_larger_than_its_entries_is_to_be_rebuilt(answer: Answer) -> None:
    answer(vacuum, "pg_relation_size", [("job_claim", 2**30, 1_000), ("job_firm", 2**30, 9**9)])
    found = only_ill("vacuum")
    assert found.what == "Index job_claim takes 1,024 MB for about 1,000 entries."
    assert found.mend == "REINDEX INDEX CONCURRENTLY job_claim;"


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_autovacuum")
def test_the_claims_plan_is_that_of_the_real_statements_and_takes_nothing(firm: Firm) -> None:
    fill({firm.pk: 4_000})
    execute("ANALYZE jobs_jobqueue")
    state = "SELECT status, count(*), max(lease_token) FROM jobs_jobqueue GROUP BY status"
    drawn = "SELECT last_value, is_called FROM jobs_lease_token"
    before = table_rows(state), table_rows(drawn)
    (found,) = findings("claim_plan")
    assert found.severity is Severity.OK, found
    assert "would use job_claim" in found.what
    assert "only the query for work" not in found.what, "the plan of the taking is missing"
    touched = int(found.what.rpartition(" about ")[2].split()[0].replace(",", ""))
    assert 0 < touched <= 2_000
    assert (table_rows(state), table_rows(drawn)) == before


def test_a_claim_without_its_index_is_a_problem_and_the_index_comes_back(firm: Firm) -> None:
    # Dead rows of other tests lie between the rows and change what the index costs.
    execute("TRUNCATE jobs_jobqueue CASCADE")
    fill({firm.pk: 4_000})
    execute("DROP INDEX job_claim")
    plan = only_ill("claim_plan")
    assert plan.severity is Severity.PROBLEM
    assert "job_claim" not in plan.what
    missing = only_ill("indexes")
    assert (missing.severity, missing.what) == (
        Severity.PROBLEM,
        "Index job_claim of jobs_jobqueue is missing.",
    )
    mend(missing)
    execute("ANALYZE jobs_jobqueue")
    assert ill("claim_plan") + ill("indexes") == []


def test_an_index_that_is_not_the_queues_is_told_of(firm: Firm) -> None:
    execute("CREATE INDEX of_a_stranger ON jobs_jobqueue (status)")
    found = only_ill("indexes")
    assert (found.severity, found.mend) == (
        Severity.NOTICE,
        'DROP INDEX CONCURRENTLY "of_a_stranger";',
    )
    mend(found)
    assert ill("indexes") == []


@pytest.mark.django_db(transaction=True)
def test_an_index_that_was_not_built_to_its_end_is_a_problem(firm: Firm) -> None:
    fill({firm.pk: 2})
    try:
        with pytest.raises(DatabaseError):
            execute("CREATE UNIQUE INDEX CONCURRENTLY half_built ON jobs_jobqueue (priority)")
        found = only_ill("indexes.invalid")
        assert "half_built" in found.what
        with all_firms("test"):
            first = JobQueue.objects.all()[:1].get()
            JobQueue.objects.filter(pk=first.pk).update(priority=1)
        mend(found)
        assert ill("indexes.invalid") == []
    finally:
        execute("DROP INDEX half_built")


def test_arrays_without_nulls_are_a_problem() -> None:
    assert ill("connections.array_nulls") == []
    execute("SET LOCAL array_nulls = off")
    found = only_ill("connections.array_nulls")
    assert found.severity is Severity.PROBLEM
    assert "SET array_nulls = on" in found.mend


@unpooled_only
@pytest.mark.parametrize(
    ("encoding", "severity"), [("SQL_ASCII", Severity.PROBLEM), ("UTF8", Severity.OK)]
)
def test_a_database_that_cannot_store_every_text_is_a_problem(
    encoding: str, severity: Severity, tmp_path: Path
) -> None:
    options = f"ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
    with empty_database("encoding", tmp_path, options) as url, default_database(url):
        found = connections.check_encoding()
    assert found.severity is severity
    assert ("UTF8" in found.mend) is (severity is Severity.PROBLEM)


@pytest.mark.parametrize(
    ("pool", "severity"),
    [
        (True, Severity.PROBLEM),
        ({"min_size": 1, "max_size": 8}, Severity.PROBLEM),
        ({"max_size": 9}, Severity.OK),
        (None, None),
    ],
)
def test_a_pool_too_small_for_a_worker_process_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, pool: object, severity: Severity | None
) -> None:
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "pool", pool)
    found = list(connections.check_own_pool(5))
    assert [one.severity for one in found] == ([severity] if severity else [])


def test_workers_that_need_more_connections_than_there_are_are_a_problem() -> None:
    WorkerFactory(concurrency=200)
    assert any(
        "1 live worker process with 200 handlers" in one.what for one in findings("connections")
    )
    WorkerFactory(concurrency=300)
    found = only_ill("connections")
    assert found.severity is Severity.PROBLEM
    assert "2 live worker processes with 500 handlers may open 510 connections" in found.what
    Worker.objects.update(dead_at=timezone.now())
    assert ill("connections") == []


@pytest.mark.parametrize(
    ("row", "severity", "mend"),
    [
        ((100, 3, 70, 10, None, 97), None, ""),
        ((100, 3, 90, 10, None, 97), Severity.NOTICE, "max_connections = 200"),
        ((100, 3, 97, 10, None, 97), Severity.PROBLEM, "max_connections = 200"),
    ],
)
def test_connections_in_use_are_judged(
    row: tuple[int, ...], severity: Severity | None, mend: str, answer: Answer
) -> None:
    answer(connections, "max_connections", [row])
    found = ill("connections.used")
    assert [one.severity for one in found] == ([severity] if severity else [])
    assert all(mend in one.mend for one in found)


@pytest.mark.req("T-02")
@pytest.mark.parametrize(
    "damage",
    [
        "ALTER TABLE jobs_pause DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE jobs_pause NO FORCE ROW LEVEL SECURITY",
        "DROP POLICY firm_wall ON jobs_pause",
    ],
)
def test_a_hole_in_the_wall_is_closed_by_the_sql(damage: str) -> None:
    execute(damage)
    found = only_ill("wall")
    assert found.severity is Severity.PROBLEM
    assert "able jobs_pause" in found.what
    mend(found)
    assert ill("wall") == []


def test_a_fault_of_the_wall_keeps_its_capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = ("the database role is exempt (BYPASSRLS)", "ALTER ROLE exempt NOBYPASSRLS;")
    monkeypatch.setattr(schema, "rls_faults", lambda: iter([fault]))
    assert only_ill("wall").what == "The database role is exempt (BYPASSRLS)."


def test_clocks_that_differ_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(seconds: int) -> Any:
        late = timezone.now() + timedelta(seconds=seconds)
        monkeypatch.setattr(clocks, "fetch", lambda *_: [(late,)])
        return findings("clocks")[0]

    assert look(1).severity is Severity.OK
    assert look(-60).severity is Severity.NOTICE
    far = look(3_605)
    assert (far.severity, far.what) == (
        Severity.PROBLEM,
        "The database's clock is 1 h ahead of this machine's.",
    )


def test_a_check_that_takes_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def look() -> list[Any]:
        execute("SELECT pg_sleep(30)")
        return []

    monkeypatch.setattr(base, "TIME_LIMIT_SECONDS", 0.1)
    monkeypatch.setitem(examination.CHECKS, "postgresql", {"slow_check": look})
    found = only_ill("")
    assert (found.id, found.severity) == ("slow_check.unseen", Severity.PROBLEM)
    assert "did not answer in time" in found.what
    assert table_rows("SELECT current_setting('statement_timeout')") == [("0",)]


def test_a_missing_right_is_no_illness(monkeypatch: pytest.MonkeyPatch) -> None:
    def look() -> list[Any]:
        execute("SELECT * FROM pg_authid")
        return []

    monkeypatch.setitem(examination.CHECKS, "postgresql", {"passwords": look})
    found = only_ill("")
    assert (found.severity, found.what) == (
        Severity.NOTICE,
        "passwords: this database role lacks the privilege to look.",
    )
    assert found.mend.startswith("GRANT pg_monitor TO ")


def test_a_check_cannot_write(monkeypatch: pytest.MonkeyPatch, firm: Firm) -> None:
    def look() -> list[Any]:
        execute("DELETE FROM tenants_firm")
        return []

    monkeypatch.setitem(examination.CHECKS, "postgresql", {"careless": look})
    assert only_ill("").severity is Severity.PROBLEM
    assert Firm.objects.filter(pk=firm.pk).exists()
    assert connection.is_usable()
