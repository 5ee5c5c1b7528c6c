"""The doctor on SQLite: how the file is opened, its log, its disk, and whether it is damaged."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, connections

from jobs.queries.doctor import Severity, base, examination, sqlite_file
from tenants.models import Firm
from tests.jobs.queries.doctor.kit import execute, findings, ill, mend, only_ill
from tests.queue_kit import table_rows
from tests.support.backlog import fill
from tests.support.databases import default_database, sqlite_only

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-06", "E-03"), sqlite_only]

MEGABYTE = 1024 * 1024


def test_a_fresh_file_is_well() -> None:
    assert ill() == []
    assert {one.id.partition(".")[0] for one in findings()} == {"file", "claim_plan", "indexes"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("damage", "name", "remedy"),
    [
        ("PRAGMA journal_mode = DELETE", "file.journal", "PRAGMA journal_mode = WAL;"),
        ("PRAGMA synchronous = OFF", "file.synchronous", "PRAGMA synchronous = NORMAL;"),
        ("PRAGMA busy_timeout = 100", "file.busy_timeout", '"timeout": 20'),
    ],
)
def test_a_file_opened_in_another_way_is_a_problem(
    damage: str, name: str, remedy: str, tmp_path: Path
) -> None:
    # Another file, because the journal mode cannot be changed while others have the file open.
    with default_database(f"sqlite:///{tmp_path}/file.sqlite3"):
        execute(damage)
        (found,) = (one for one in sqlite_file.check() if one.severity is Severity.PROBLEM)
        assert found.id == name
        assert found.mend.startswith(remedy)
        if remedy.startswith("PRAGMA"):
            mend(found)
            assert Severity.PROBLEM not in {one.severity for one in sqlite_file.check()}


def test_transactions_that_begin_by_reading_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections[DEFAULT_DB_ALIAS], "transaction_mode", None)
    found = only_ill("")
    assert (found.id, found.what) == ("file.transaction_mode", "Transactions begin DEFERRED.")


def test_a_log_that_grows_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "LARGE_LOG_BYTES", 0)
    assert only_ill("").severity is Severity.NOTICE
    monkeypatch.setattr(sqlite_file, "VERY_LARGE_LOG_BYTES", 0)
    found = only_ill("")
    assert (found.id, found.severity) == ("file.log", Severity.PROBLEM)
    assert found.mend.startswith("PRAGMA wal_checkpoint(TRUNCATE);")


@pytest.mark.parametrize(
    ("free", "severity"), [(500 * MEGABYTE, Severity.NOTICE), (MEGABYTE, Severity.PROBLEM)]
)
def test_a_disk_that_fills_is_told_of(
    free: int, severity: Severity, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimpleNamespace(disk_usage=lambda _: SimpleNamespace(free=free))
    monkeypatch.setattr(sqlite_file, "shutil", disk)
    found = only_ill("")
    assert (found.id, found.severity) == ("file.room", severity)


def test_damage_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sqlite_file.fetch
    torn = [("row 3 missing from index job_claim",)]
    monkeypatch.setattr(
        sqlite_file, "fetch", lambda sql: torn if "quick_check" in sql else real(sql)
    )
    found = only_ill("")
    assert (found.id, found.severity) == ("file.sound", Severity.PROBLEM)
    assert found.what == "The file is damaged: row 3 missing from index job_claim."


def test_a_file_too_large_to_check_is_given_up_and_the_rest_is_told(
    monkeypatch: pytest.MonkeyPatch, firm: Firm
) -> None:
    fill({firm.pk: 500})
    monkeypatch.setattr(base, "STEPS_PER_TEST", 1_000)
    told = {one.id: one for one in examination.examine({"soundness": 0.0}).findings}
    assert told["file.sound"].severity is Severity.NOTICE
    assert "too large to be checked" in told["file.sound"].what
    assert told["file.journal"].severity is Severity.OK
    assert findings("file.sound")[0].severity is Severity.OK


def test_the_claims_plan_is_that_of_the_real_statements_and_takes_nothing(firm: Firm) -> None:
    fill({firm.pk: 500})
    state = "SELECT status, count(*) FROM jobs_jobqueue GROUP BY status"
    before = table_rows(state), table_rows("SELECT value FROM jobs_lease_token")
    (found,) = findings("claim_plan")
    assert (found.severity, found.what) == (Severity.OK, "A claim of 100 jobs would use job_claim.")
    assert (table_rows(state), table_rows("SELECT value FROM jobs_lease_token")) == before


def test_a_claim_without_its_index_is_a_problem_and_the_index_comes_back(firm: Firm) -> None:
    fill({firm.pk: 500})
    execute("DROP INDEX job_claim")
    plan, missing = only_ill("claim_plan"), only_ill("indexes")
    assert plan.severity is Severity.PROBLEM
    assert missing.id == "indexes.missing"
    mend(missing)
    # The statistics of the index were deleted with it.
    mend(plan)
    assert ill() == []


def test_a_check_cannot_write(monkeypatch: pytest.MonkeyPatch, firm: Firm) -> None:
    def look() -> list[Any]:
        execute("DELETE FROM tenants_firm")
        return []

    monkeypatch.setitem(examination.CHECKS, "sqlite", {"careless": look})
    assert only_ill("").severity is Severity.PROBLEM
    assert Firm.objects.filter(pk=firm.pk).exists()
    firm.save()
