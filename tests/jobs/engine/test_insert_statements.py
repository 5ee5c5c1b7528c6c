"""How jobs are stored: in how many statements, with what in each, and who is notified."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, connection, transaction

from jobs.engine import enqueue as door
from jobs.engine import insert, job_arguments, wakeup
from jobs.engine.wakeup import AnnouncedJob, listen_conninfo
from jobs.errors import PayloadInvalid
from jobs.models import JobQueue
from jobs.queue import EnqueueSpec, enqueue, enqueue_many
from jobs.registry import job
from tests.factories.tenants import UserFactory
from tests.jobs.engine.conftest import WorkPayload
from tests.queue_kit import later, rows, table_rows
from tests.support.databases import unpooled_only

pytestmark = pytest.mark.django_db(transaction=True)

on_postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="a matter of round trips and row level security"
)

OWN = ("job_id", "payload", "correlation_id", "firm", "user", "lease_token")


@pytest.fixture(autouse=True)
def nobody_notified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next enqueue be the first of this process, so that it notifies the others."""
    monkeypatch.setattr(wakeup, "_last_notified", {})


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """Collect the statements that the database gets."""
    asked: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        asked.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield asked


OPTIONS: list[dict[str, Any]] = [
    {},
    {"priority": 0},
    {"max_attempts": 7},
    {"delay": 90},
    {"at": datetime(2030, 6, 1, tzinfo=UTC)},
    {"expires_at": datetime(2999, 1, 1, tzinfo=UTC)},
    {"lock_key": "lock"},
    {"idempotency_key": "key"},
]


@pytest.mark.req("J-01", "J-06")
@pytest.mark.parametrize("times", [1, 2], ids=["all different", "each twice"])
def test_a_job_of_many_is_stored_as_it_would_be_alone(firm, other_firm, times):
    user = UserFactory(username="ada")
    options = [*OPTIONS, {"user": user}, {"correlation_id": "abc"}] * times
    with later(1000):
        alone = [enqueue("test.work", firm=firm, **each).job for each in options]
        specs = [EnqueueSpec("test.work", **each) for each in options]
        together = [result.job for result in enqueue_many(specs, firm=other_firm)]
    for one, other in zip(alone, together, strict=True):
        assert comparable(one) == comparable(other)
    assert [job.user_id for job in together].count(user.pk) == times
    assert {job.firm_id for job in together} == {other_firm.pk}


@pytest.mark.req("J-01", "J-06")
@pytest.mark.parametrize("options", OPTIONS[:-2], ids=lambda each: str(*each))
def test_what_all_have_in_common_reaches_each(firm, other_firm, options):
    with later(1000):
        alone = enqueue("test.work", firm=firm, **options).job
        together = enqueue_many([EnqueueSpec("test.work", **options)] * 3, firm=other_firm)
    assert [comparable(result.job) for result in together] == [comparable(alone)] * 3
    assert len({result.job.correlation_id for result in together}) == 3


def comparable(job: JobQueue) -> dict[str, Any]:
    """Return the columns that do not depend on which job of which firm it is."""
    fields = (field for field in JobQueue._meta.concrete_fields if field.name not in OWN)
    return {field.name: getattr(job, field.attname) for field in fields}


@on_postgresql
@pytest.mark.req("J-01", "T-02")
@pytest.mark.parametrize("count", [1, 3])
def test_an_enqueue_is_one_statement_and_ends_the_rls_bypass(firm, statements, count, monkeypatch):
    # The second enqueue is within the interval, however slow the machine is.
    monkeypatch.setattr(wakeup, "NOTIFY_INTERVAL_SECONDS", 600.0)
    for _ in range(2):
        specs = [EnqueueSpec("test.work", {"name": "x"})] * count
        assert all(result.created for result in enqueue_many(specs, firm=firm))
    assert ["INSERT INTO jobs_jobqueue" in sql for sql in statements] == [True, True]
    # The first enqueue notifies other processes; the second comes too soon after it.
    assert ["pg_notify" in sql for sql in statements] == [True, False]
    assert table_rows("SELECT current_setting('mailroom.engine', true)")[0][0] in ("", None, "off")
    assert table_rows("SELECT count(*) FROM jobs_jobqueue") == [(0,)]


@on_postgresql
@pytest.mark.req("J-01", "T-02")
@pytest.mark.parametrize("count", [1, 3])
def test_in_the_callers_transaction_it_is_one_statement_too(firm, statements, count):
    with transaction.atomic():
        enqueue_many([EnqueueSpec("test.work", {"name": "x"})] * count, firm=firm)
        assert len(statements) == 1
        assert table_rows("SELECT current_setting('mailroom.engine', true)") == [("off",)]
        assert table_rows("SELECT count(*) FROM jobs_jobqueue") == [(0,)]
    assert len(rows(JobQueue)) == count


@pytest.mark.req("J-01", "J-07")
def test_a_job_with_an_idempotency_key_is_stored_by_one_statement_too(firm, statements):
    assert enqueue("test.work", firm=firm, idempotency_key="key").created
    assert len([sql for sql in statements if "INSERT INTO jobs_jobqueue" in sql]) == 1


@on_postgresql
@pytest.mark.req("W-02", "J-06")
def test_others_are_notified_once_there_is_something_to_claim(firm):
    with psycopg.connect(listen_conninfo(), autocommit=True) as elsewhere:
        elsewhere.execute(f"LISTEN {wakeup.CHANNEL}")
        job_id = enqueue("test.work", firm=firm, priority=1).job_id
        # If the statement takes long, a second notification follows when it is committed.
        (told,) = {one.payload for one in elsewhere.notifies(timeout=60, stop_after=1)} - {"sync"}
        assert AnnouncedJob.from_text(told) == (job_id, firm.pk, 1, "sync", "test.work")


@on_postgresql
@pytest.mark.req("W-02", "J-06")
@pytest.mark.parametrize("later", [{"delay": 60}, {"at": datetime(2100, 1, 1, tzinfo=UTC)}])
def test_a_notification_names_no_job_that_is_not_due(firm, later):
    with psycopg.connect(listen_conninfo(), autocommit=True) as elsewhere:
        elsewhere.execute(f"LISTEN {wakeup.CHANNEL}")
        enqueue("test.work", firm=firm, **later)
        assert {one.payload for one in elsewhere.notifies(timeout=60, stop_after=1)} == {"sync"}


@on_postgresql
@pytest.mark.req("W-02", "J-06")
def test_a_notification_of_several_jobs_names_none(firm):
    with psycopg.connect(listen_conninfo(), autocommit=True) as elsewhere:
        elsewhere.execute(f"LISTEN {wakeup.CHANNEL}")
        enqueue_many([EnqueueSpec("test.work")] * 2, firm=firm)
        assert {one.payload for one in elsewhere.notifies(timeout=60, stop_after=1)} == {"sync"}


@on_postgresql
@pytest.mark.req("W-02", "J-06")
def test_of_a_keyed_job_others_are_notified_when_it_has_its_slot(firm, statements):
    enqueue("test.locked", {"name": "x"}, firm=firm)
    assert "INSERT INTO jobs_jobqueue" in statements[0]
    assert [number for number, sql in enumerate(statements) if "pg_notify" in sql] == [
        len(statements) - 1
    ]


@on_postgresql
@pytest.mark.req("W-02", "J-06")
def test_nobody_is_notified_of_what_was_rolled_back(firm, statements):
    with transaction.atomic():
        enqueue_many([EnqueueSpec("test.work")] * 2, firm=firm)
        transaction.set_rollback(True)
    assert not [sql for sql in statements if "pg_notify" in sql]
    assert rows(JobQueue) == []


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make batches of two jobs: one is stored while the next is validated."""
    monkeypatch.setattr(door, "BATCH", 2)
    monkeypatch.setattr(insert, "BATCH", 2)


@pytest.mark.req("J-06")
def test_of_many_some_are_stored_while_others_are_validated_and_all_in_order(firm, small_batches):
    results = enqueue_many(
        [EnqueueSpec("test.work", {"name": str(n)}) for n in range(7)], firm=firm
    )
    assert all(result.created for result in results)
    assert [result.job.payload["name"] for result in results] == [str(n) for n in range(7)]


@pytest.mark.req("J-06", "J-07")
@pytest.mark.parametrize("job_type", ["test.work", "test.once"])
def test_a_key_of_a_batch_before_is_known_in_the_next(firm, small_batches, job_type):
    keys = ["a", "b", None, "a", "c", "b", None]
    # A once-only job without a key gets its key from its payload.
    specs = [EnqueueSpec(job_type, {"name": str(n)}, idempotency_key=k) for n, k in enumerate(keys)]
    results = enqueue_many(specs, firm=firm)
    assert [result.created for result in results] == [True, True, True, False, True, False, True]
    ids = [result.job_id for result in results]
    assert (ids[3], ids[5]) == (ids[0], ids[1])
    assert {job.job_id for job in rows(JobQueue)} == set(ids)


@pytest.mark.req("T-02", "J-06")
@pytest.mark.skipif(connection.vendor == "sqlite", reason="row level security is PostgreSQL's")
def test_a_types_own_functions_never_bypass_row_level_security(firm, small_batches):
    seen = []

    def key(payload):
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('mailroom.engine', true)")
            seen.append(cursor.fetchone()[0])
        return f"key:{payload.name}"

    job("test.looks", category="sync", payload=WorkPayload, lock_key=key)(lambda payload, ctx: None)
    specs = [EnqueueSpec("test.looks", {"name": str(number)}) for number in range(5)]
    assert len(enqueue_many(specs, firm=firm)) == 5
    assert len(seen) == 5
    assert "on" not in seen


@pytest.mark.req("J-03", "J-06")
def test_what_is_refused_undoes_what_was_stored_before_it(firm, small_batches, statements):
    specs = [*[EnqueueSpec("test.work")] * 4, EnqueueSpec("test.work", {"nmae": "x"})]
    with pytest.raises(PayloadInvalid):
        enqueue_many(specs, firm=firm)
    assert rows(JobQueue) == []
    assert not [sql for sql in statements if "pg_notify" in sql]
    assert enqueue("test.work", firm=firm).created


@pytest.mark.req("J-06")
@pytest.mark.parametrize("place", [0, 3, 6])
def test_what_the_database_refuses_undoes_the_rest(firm, small_batches, monkeypatch, place):
    # The engine's own check lets this priority pass, so that only the table's constraint refuses
    # it.
    monkeypatch.setattr(job_arguments, "PRIORITIES", (0, 9))
    specs = [EnqueueSpec("test.work", priority=9 if n == place else 1) for n in range(7)]
    with pytest.raises(IntegrityError, match="job_priority_known"):
        enqueue_many(specs, firm=firm)
    assert rows(JobQueue) == []
    assert enqueue("test.work", firm=firm).created


@pytest.mark.req("J-06")
def test_many_join_the_callers_transaction_whatever_their_number(firm, small_batches):
    with transaction.atomic():
        assert len(enqueue_many([EnqueueSpec("test.work")] * 5, firm=firm)) == 5
        transaction.set_rollback(True)
    assert rows(JobQueue) == []


@on_postgresql
@unpooled_only
@pytest.mark.req("J-01")
def test_a_statement_used_over_and_over_is_prepared_where_that_is_allowed(firm):
    wakeup.note_notify("sync", float("inf"))
    for _ in range(10):
        enqueue("test.work", {"name": "x"}, firm=firm)
    prepared = (
        "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%%INSERT INTO jobs%%'"
    )
    assert table_rows(prepared) == [(1,)]
    connection.close()
    connection.ensure_connection()
    # config.settings sets this for connections behind a pooler.
    connection.connection.prepare_threshold = None
    for _ in range(10):
        enqueue("test.work", {"name": "x"}, firm=firm)
    assert table_rows(prepared) == [(0,)]
