"""`manage.py import_legacy_jobs`: each job of an older system is imported once, never unpickled."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection
from pydantic import AliasChoices, AliasPath, ConfigDict, Field

from jobs.engine.job_arguments import MAX_KEY_LENGTH
from jobs.engine.unreadable import unreadable_jobs
from jobs.models import Attempt, DeadLetterQueue, IdempotencyKey, JobQueue
from jobs.operations import dead_letters
from jobs.operations.legacy import importing
from jobs.operations.legacy import table as tables
from jobs.queue import enqueue, retry
from jobs.registry import JobPayload, JobType, job
from jobs.testing import run_job
from tenants.models import AuditEntry, Firm
from tests.jobs.management.conftest import Run
from tests.queue_kit import rows, table_rows
from tests.support.databases import sqlite_only

pytestmark = [pytest.mark.django_db, pytest.mark.req("U-07")]

SAMPLES = Path("tests/data/legacy")
Import = Callable[..., Run]


class ReceiptPayload(JobPayload):
    """A payload with an order's number."""

    order: int


@pytest.fixture
def receipts(job_types: dict[str, JobType]) -> list[int]:
    """Declare the type of the imported tasks; return the orders that its handler got."""
    ran: list[int] = []

    @job("send_receipt", category="notifications", payload=ReceiptPayload)
    def send_receipt(payload: ReceiptPayload, _: Any) -> None:
        ran.append(payload.order)

    return ran


def load(name: str) -> None:
    """Create the tables of a sample, with the column types of this database."""
    sql = (SAMPLES / f"{name}.sql").read_text()
    if connection.vendor == "sqlite":
        # On SQLite Django gives these types other names.
        sql = sql.replace("timestamptz", "datetime").replace("boolean", "bool")
    with connection.cursor() as cursor:
        for statement in sql.split(";\n"):
            if statement.strip():
                cursor.execute(statement)


@pytest.fixture
def import_emails(run: Callable[..., Run], firm: Firm) -> Import:
    """Return a function that imports the table of one type."""
    load("per_type")
    table = ("--from", "per_type", "--table", "email_processing_jobs")

    def call(*more: str, slug: str = firm.slug) -> Run:
        types = () if "--job-type" in more else ("--job-type", "email_processing")
        return run("import_legacy_jobs", *table, "--firm", slug, *types, *more)

    return call


@pytest.fixture
def import_tasks(run: Callable[..., Run], firm: Firm) -> Import:
    """Return a function that imports the tasks of Celery or django-q."""

    def call(shape: str, *more: str) -> Run:
        named = ("--job-type", "shop.tasks.send_receipt=send_receipt")
        return run("import_legacy_jobs", "--from", shape, "--firm", firm.slug, *named, *more)

    return call


def jobs_by(field: str) -> dict[Any, JobQueue]:
    return {one.payload.get(field): one for one in rows(JobQueue)}


def skipped(done: Run) -> list[tuple[str, str, str]]:
    return [(one["id"], one["field"], one["code"]) for one in done.json["reasons"]]


def test_a_table_of_one_type_becomes_jobs_and_history(import_emails: Import, firm: Firm) -> None:
    done = import_emails("--json")
    assert done.code == 0, done.err
    counts = {name: done.json[name] for name in ("read", "enqueued", "history", "skipped")}
    assert counts == {
        "read": 6, "enqueued": 2, "history": {"completed": 1, "failed": 1}, "skipped": 2,
    }  # fmt: skip
    assert skipped(done) == [
        ("00000000-0000-4000-8000-000000000005", "connection_id", "missing"),
        ("00000000-0000-4000-8000-000000000006", "status", "unknown_status"),
    ]
    found = jobs_by("connection_id")
    mailbox = "22222222-2222-4222-8222-00000000000"
    waiting, complete, failed = found[f"{mailbox}2"], found[f"{mailbox}3"], found[f"{mailbox}4"]
    assert {found[f"{mailbox}{n}"].status for n in (1, 2)} == {"pending"}
    assert waiting.lock_key == f"gmail-ingest:{mailbox}2"
    assert waiting.idempotency_key == f"email_processing:{mailbox}2"
    assert waiting.payload["tenant_id"] == firm.pk
    assert (complete.status, complete.category) == ("completed", "ingestion")
    assert complete.result["messages"] == 12
    assert "sk-canary" not in str(complete.result)
    assert complete.created_at == datetime(2026, 2, 1, 8, 3, tzinfo=UTC)
    assert complete.started_at == datetime(2026, 2, 1, 8, 4, tzinfo=UTC)
    assert complete.completed_at == datetime(2026, 2, 1, 8, 5, tzinfo=UTC)
    # The ids are in the order of creation, as lists need them.
    assert complete.job_id < failed.job_id < waiting.job_id
    assert (failed.status, failed.ready, failed.waiting) == ("failed", False, False)
    assert "Could not read" in failed.last_error
    assert "anna@" not in failed.last_error
    assert rows(Attempt)[0].message == failed.last_error
    assert rows(DeadLetterQueue) == []


@pytest.mark.req("J-08")
def test_what_expires_before_it_is_due_is_skipped(import_emails: Import) -> None:
    with connection.cursor() as cursor:
        kind = "datetime" if connection.vendor == "sqlite" else "timestamptz"
        for name in ("expires_at", "run_at"):
            cursor.execute(f"ALTER TABLE email_processing_jobs ADD COLUMN {name} {kind}")
        row = "UPDATE email_processing_jobs SET expires_at = %s, run_at = %s WHERE id = %s"
        first, second = (f"00000000-0000-4000-8000-00000000000{n}" for n in (1, 2))
        cursor.execute(row, ["2026-02-02 08:00:00+00:00", None, first])
        cursor.execute(row, ["2999-02-02 08:00:00+00:00", "2999-02-03 08:00:00+00:00", second])
    done = import_emails("--json")
    assert done.code == 0, done.err
    assert (done.json["enqueued"], done.json["skipped"]) == (1, 3)
    assert skipped(done)[0] == (second, "expires_at", "after_expiry")


@pytest.mark.parametrize(("column", "field"), [("run_at", "due_at"), ("expires_at", "expires_at")])
@pytest.mark.parametrize(
    ("moment", "code"),
    [("9999-12-31 00:00:00", "out_of_range"), ("0001-01-01 00:00:00", "out_of_range"),
     ("infinity", "unreadable"), ("0000-00-00 00:00:00", "unreadable")],
)  # fmt: skip
def test_a_waiting_row_with_a_time_that_is_none_here_is_skipped_alone(
    import_emails: Import, column: str, field: str, moment: str, code: str
) -> None:
    if connection.vendor == "postgresql" and moment.startswith("0000"):
        pytest.skip("no column of times takes it")
    first = "00000000-0000-4000-8000-000000000001"
    with connection.cursor() as cursor:
        kind = "datetime" if connection.vendor == "sqlite" else "timestamptz"
        cursor.execute(f"ALTER TABLE email_processing_jobs ADD COLUMN {column} {kind}")
        cursor.execute(
            f"UPDATE email_processing_jobs SET {column} = %s WHERE id = %s", [moment, first]
        )
    done = import_emails("--json")
    assert done.code == 0, done.err
    assert (done.json["enqueued"], done.json["skipped"]) == (1, 3)
    assert skipped(done)[0] == (first, field, code)


@pytest.mark.parametrize("moment", ["9999-12-31 00:00:00", "0001-01-01 00:00:00", "infinity"])
def test_history_has_no_time_that_is_none_here(import_emails: Import, moment: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE email_processing_jobs SET created_at = %s, completed_at = %s", [moment, moment]
        )
    done = import_emails("--json")
    assert done.json["history"] == {"completed": 1, "failed": 1}, done.err
    over = [one for one in rows(JobQueue) if one.completed_at is not None]
    assert {(one.created_at.year, one.completed_at.year) for one in over} == {(2026, 2026)}


def test_a_number_of_attempts_that_is_none_stops_no_import(import_emails: Import) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE email_processing_jobs ADD COLUMN attempts double precision")
        cursor.execute("UPDATE email_processing_jobs SET attempts = %s", [float("inf")])
    done = import_emails("--json")
    assert done.json["history"] == {"completed": 1, "failed": 1}, done.err
    assert {one.attempts for one in rows(JobQueue) if one.completed_at is not None} == {1}


def test_a_second_run_imports_nothing_and_another_firm_has_its_own(
    import_emails: Import, other_firm: Firm
) -> None:
    first = import_emails("--json").json
    jobs = len(rows(JobQueue))
    again = import_emails("--json").json
    assert (again["enqueued"], again["history"], again["already_there"]) == (0, {}, 4)
    assert (again["read"], again["skipped"]) == (first["read"], first["skipped"])
    assert len(rows(JobQueue)) == jobs
    assert len([one for one in rows(AuditEntry) if one.act == "jobs.import"]) == 1
    assert {one.key for one in rows(IdempotencyKey)} == {
        f"import:email_processing_jobs:00000000-0000-4000-8000-00000000000{n}" for n in range(1, 5)
    }
    elsewhere = import_emails("--json", slug=other_firm.slug).json
    assert (elsewhere["enqueued"], elsewhere["already_there"]) == (2, 0)


def test_a_dry_run_says_the_same_and_stores_nothing(import_emails: Import) -> None:
    tried = import_emails("--dry-run", "--json").json
    assert (rows(JobQueue), rows(IdempotencyKey), rows(AuditEntry)) == ([], [], [])
    done = import_emails("--json").json
    assert tried.pop("dry_run")
    assert not done.pop("dry_run")
    assert tried | {"correlation_id": ""} == done | {"correlation_id": ""}


def test_an_import_that_ends_half_way_goes_on_from_there(
    import_emails: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "CHUNK", 2)
    store = importing.store_finished

    def fail(found: Any, *args: Any, **named: Any) -> Any:
        if found:
            raise RuntimeError("the power is out")
        return store(found, *args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(importing, "store_finished", fail)
        with pytest.raises(RuntimeError):
            import_emails()
    # The first chunk was imported, and nothing of the second.
    assert len(rows(JobQueue)) == len(rows(IdempotencyKey)) == 2
    (entry,) = [one for one in rows(AuditEntry) if one.act == "jobs.import"]
    assert {one.correlation_id for one in rows(JobQueue)} == {entry.after["correlation_id"]}
    done = import_emails("--json").json
    assert (done["read"], done["enqueued"], done["already_there"]) == (6, 0, 2)
    assert done["history"] == {"completed": 1, "failed": 1}


def test_a_live_job_with_the_types_key_stands_for_the_row(
    import_emails: Import, firm: Firm
) -> None:
    mailbox = UUID("22222222-2222-4222-8222-000000000001")
    live = enqueue("email_processing", {"connection_id": mailbox}, firm=firm)
    done = import_emails("--json").json
    assert (done["enqueued"], done["already_there"]) == (1, 1)
    assert live.job_id in [one.job_id for one in rows(IdempotencyKey)]


def test_fields_can_come_from_columns_of_other_names(
    import_emails: Import, receipts: list[int], tmp_path: Path
) -> None:
    file = tmp_path / "map.json"
    file.write_text('{"job_types": {"": "email_processing"}, "fields": {"connection_id": "id"}}')
    done = import_emails("--map", str(file), "--json")
    assert done.json["enqueued"] == 3
    assert "00000000-0000-4000-8000-000000000001" in jobs_by("connection_id")


def test_celerys_tasks_become_jobs_and_history(import_tasks: Import, receipts: list[int]) -> None:
    load("django_celery_results")
    done = import_tasks("django_celery_results", "--json")
    assert done.json["history"] == {"canceled": 1, "completed": 1, "failed": 1}
    assert (done.json["enqueued"], done.json["skipped"]) == (1, 4)
    assert skipped(done) == [
        ("4", "args", "positional"),
        ("5", "payload", "unreadable"),
        ("6", "order", "wrong_type"),
        ("7", "job_type", "unknown_type"),
    ]
    found = jobs_by("order")
    assert found[7].result == {"result": "sent"}
    assert found[7].completed_at == datetime(2026, 3, 1, 10, 0, 2, tzinfo=UTC)
    assert (found[8].status, found[8].last_error) == ("failed", "mail server is away")
    assert rows(Attempt)[0].error_class == "SMTPException"
    assert run_job(found[9].pk).status == "completed"
    # A task that failed in the older system can be retried here.
    retry(found[8])
    assert run_job(found[8].pk).status == "completed"
    assert receipts == [9, 8]


def test_failures_can_become_dead_letters_with_their_times(
    import_tasks: Import, receipts: list[int]
) -> None:
    load("django_celery_results")
    done = import_tasks("django_celery_results", "--failed-as", "dlq", "--json")
    assert done.json["history"]["dlq"] == 1
    (letter,) = rows(DeadLetterQueue)
    assert (letter.reason, letter.error_class) == ("exhausted", "SMTPException")
    assert letter.moved_at == datetime(2026, 3, 1, 10, 1, 2, tzinfo=UTC)
    dead_letters.reprocess(letter.pk)
    assert run_job(letter.original_job_id).status == "completed"
    assert unreadable_jobs()[1] == []


def test_django_qs_tasks_become_history_and_nothing_is_unpickled(
    import_tasks: Import, receipts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("unpickled")

    load("django_q_task")
    for name in ("loads", "load", "Unpickler", "_loads", "_load"):
        monkeypatch.setattr(pickle, name, refuse)
    done = import_tasks("django_q_task", "--failed-as", "dlq", "--json")
    assert done.json["history"] == {"completed": 1, "failed": 1}
    assert done.json["left_in_queue"] == "django_q_ormq"
    assert "django_q_ormq" in done.err
    completed, failed = sorted(rows(JobQueue), key=lambda one: one.created_at)
    assert (completed.status, completed.result) == ("completed", None)
    assert completed.completed_at == datetime(2026, 4, 1, 12, 0, 5, tzinfo=UTC)
    # Without a payload the job could not be reprocessed, so there is no dead letter.
    assert (failed.status, failed.attempts, failed.max_attempts) == ("failed", 4, 4)
    assert receipts == []


@sqlite_only
def test_a_row_of_damaged_bytes_is_skipped_alone_and_not_shown(import_emails: Import) -> None:
    damaged = "CAST(x'7b2263616e617279ff227d' AS text)"
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE email_processing_jobs ADD COLUMN payload text")
        one = "WHERE id = '00000000-0000-4000-8000-00000000000{}'"
        cursor.execute(f"UPDATE email_processing_jobs SET payload = {damaged} {one.format(1)}")
        cursor.execute(
            f"UPDATE email_processing_jobs SET error_message = {damaged} {one.format(4)}"
        )
        cursor.execute(
            f"UPDATE email_processing_jobs SET result_summary = {damaged} {one.format(3)}"
        )
        cursor.execute(f"UPDATE email_processing_jobs SET status = {damaged} {one.format(6)}")
    done = import_emails("--json")
    assert done.code == 0, done.err
    assert skipped(done)[0][0] == "00000000-0000-4000-8000-000000000001"
    assert (done.json["enqueued"], done.json["skipped"]) == (1, 3)
    assert done.json["history"] == {"completed": 1, "failed": 1}
    assert "canary" not in done.out + done.err
    found = {one.status: one for one in rows(JobQueue)}
    assert found["failed"].last_error.startswith('{"canary')
    shown = import_emails()
    assert (shown.code, "canary" in shown.out + shown.err) == (0, False)
    with pytest.raises(OperationalError, match="decode to UTF-8"):
        table_rows(f"SELECT {damaged}")


@sqlite_only
@pytest.mark.parametrize("column", ["id", "job_type"])
def test_a_row_of_a_damaged_id_or_type_is_skipped_alone_and_can_be_printed(
    run: Callable[..., Run], firm: Firm, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    # With chunks of one row, the next chunk has to begin after the damaged id.
    monkeypatch.setattr(tables, "CHUNK", 1)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE old (id text PRIMARY KEY, status text, job_type text)")
        cursor.execute("INSERT INTO old VALUES ('a', 'completed', 'x'), ('b', 'completed', 'x')")
        cursor.execute(f"UPDATE old SET {column} = CAST(x'41ff' AS text) WHERE id = 'a'")
    of_table = ("--from", "per_type", "--table", "old", "--firm", firm.slug)
    done = run("import_legacy_jobs", *of_table, "--job-type", "x=noop", "--json")
    assert (done.json["history"], done.json["skipped"]) == ({"completed": 1}, 1)
    shown = {"id": "\\udcff", "job_type": "A?"}[column]
    assert shown in done.out
    assert done.out.isascii()


@sqlite_only
def test_a_table_with_rows_that_nothing_tells_apart_is_refused(
    run: Callable[..., Run], firm: Firm
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE old (id text PRIMARY KEY, status text)")
        cursor.execute("INSERT INTO old VALUES (NULL, 'pending')")
    done = run("import_legacy_jobs", "--from", "per_type", "--table", "old", "--firm", firm.slug)
    assert (done.code, "old has rows without id" in done.err) == (1, True), done.err


def test_a_row_whose_id_is_too_long_is_skipped_alone(run: Callable[..., Run], firm: Firm) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE old (id text PRIMARY KEY, status text)")
        ids = ["a" * (MAX_KEY_LENGTH - len("import:old:")), "b" * 200]
        cursor.execute("INSERT INTO old VALUES (%s, 'pending'), (%s, 'pending')", ids)
    of_table = ("--from", "per_type", "--table", "old", "--firm", firm.slug)
    done = run("import_legacy_jobs", *of_table, "--job-type", "noop", "--json")
    assert (done.code, done.json["enqueued"]) == (0, 1), done.err
    assert skipped(done) == [("b" * 200, "id", "too_long")]


def test_a_field_that_no_type_has_is_refused(import_emails: Import) -> None:
    done = import_emails("--field", "conection_id=connection_id")
    assert done.code == 1
    assert "field.conection_id: is not a field of email_processing" in done.err
    assert rows(JobQueue) == []


def test_a_field_of_no_type_at_all_is_refused(run: Callable[..., Run], firm: Firm) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE old (id text PRIMARY KEY, status text, n integer)")
    of_table = ("--from", "per_type", "--table", "old", "--firm", firm.slug)
    done = run("import_legacy_jobs", *of_table, "--field", "nobodys=n")
    assert (done.code, "field.nobodys: is not a field of any type" in done.err) == (1, True), (
        done.err
    )


class CalledPayload(JobPayload):
    """A model without a JSON schema, with two fields that have other names in payloads."""

    called: Callable[[], None] | None = None
    order: int = Field(validation_alias=AliasChoices("orderNumber", "number"), default=0)
    box: int = Field(validation_alias=AliasPath("where", "box"), default=0)


class OpenPayload(JobPayload):
    """A payload that takes fields of any name."""

    model_config = ConfigDict(extra="allow")


def test_a_field_of_any_name_is_known_where_a_type_takes_them(
    run: Callable[..., Run], firm: Firm, job_types: dict[str, JobType]
) -> None:
    job("open", category="notifications", payload=OpenPayload)(lambda payload, ctx: None)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE old (id text PRIMARY KEY, status text, n integer)")
        cursor.execute("INSERT INTO old VALUES ('a', 'pending', 7)")
    of_table = ("--from", "per_type", "--table", "old", "--firm", firm.slug, "--job-type", "open")
    done = run("import_legacy_jobs", *of_table, "--field", "whatever=n")
    assert done.code == 0, done.err
    (stored,) = rows(JobQueue)
    assert stored.payload["whatever"] == 7


@pytest.mark.parametrize("name", ["orderNumber", "number", "order", "where"])
def test_fields_of_a_model_without_a_json_schema_are_known(
    run: Callable[..., Run], firm: Firm, job_types: dict[str, JobType], name: str
) -> None:
    job("call", category="notifications", payload=CalledPayload)(lambda payload, ctx: None)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE old (id text PRIMARY KEY, status text, n integer)")
    of_table = ("--from", "per_type", "--table", "old", "--firm", firm.slug, "--job-type", "call")
    assert run("import_legacy_jobs", *of_table).code == 0
    assert run("import_legacy_jobs", *of_table, "--field", f"{name}=n").code == 0


def test_reasons_are_counted_all_and_named_some(
    import_emails: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "MOST_REASONS", 1)
    done = import_emails()
    assert "Skipped" in done.out
    assert "connection_id" in done.out
    assert "and 1 more" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--from", "per_type", "--table", "nowhere", "--firm", "acme"), 1, "no table 'nowhere'"),
        (("--from", "per_type", "--firm", "acme"), 1, "needs --table"),
        (("--from", "per_type", "--table", "jobs_schedule", "--firm", "acme"), 1, "no column status"),
        (("--from", "django_q_task", "--firm", "acme", "--job-type", "a=nop"), 1, "did you mean noop"),
        (("--from", "django_q_task", "--firm", "nobody"), 3, "nobody"),
        (("--from", "django_q_task", "--firm", "acme", "--database", "x"), 1, "DATABASES has no 'x'"),
        (("--from", "pickles", "--firm", "acme"), 2, "pickles"),
        (("--from", "per_type", "--firm", "acme", "--field", "order"), 2, "two names"),
        (("--from", "per_type", "--firm", "acme", "--map", "pyproject.toml"), 2, "is not JSON"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_is_refused(
    run: Callable[..., Run], firm: Firm, arguments: tuple[str, ...], code: int, text: str
) -> None:
    done = run("import_legacy_jobs", *arguments)
    assert (done.code, text in done.err) == (code, True), done.err
