"""Keys that stay taken for a period, whether their job is over or not."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.engine.outcomes import Completed
from jobs.engine.prune import prune
from jobs.errors import PayloadInvalid, UnknownJob
from jobs.models import IdempotencyKey, JobQueue
from jobs.queue import EnqueueResult, EnqueueSpec, enqueue, enqueue_many
from jobs.registry import job
from tenants.scope import all_firms
from tests.jobs.engine.conftest import WorkPayload
from tests.queue_kit import finish, later, row, rows, take_one

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-07")]

HOUR = 3600


@pytest.fixture
def once_an_hour(job_types: dict[str, Any]) -> None:
    """Declare a type whose payload is the key, for an hour."""
    job("test.hourly", category="sync", payload=WorkPayload, unique_for=timedelta(hours=1))(
        lambda payload, ctx: None
    )


def one(firm: Any, key: str = "key", **options: Any) -> EnqueueResult:
    return enqueue("test.work", firm=firm, idempotency_key=key, unique_for=HOUR, **options)


def many(firm: Any) -> EnqueueResult:
    specs = [EnqueueSpec("test.work", idempotency_key="key", unique_for=HOUR) for _ in range(3)]
    first, *others = enqueue_many(specs, firm=firm)
    assert {(other.job_id, other.created) for other in others} == {(first.job_id, False)}
    return first


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("store", [one, many])
def test_the_key_stands_for_its_job_until_the_period_is_over(
    firm: Any, other_firm: Any, store: Callable[[Any], EnqueueResult]
) -> None:
    first = store(firm)
    finish(take_one(), Completed({}))
    assert (store(firm).created, store(firm).job_id) == (False, first.job_id)
    with later(HOUR - 1):
        assert not store(firm).created
    with later(HOUR + 1):
        second = store(firm)
        assert second.created
        finish(take_one(), Completed({}))
        assert store(firm).job_id == second.job_id
    assert store(other_firm).created


def test_a_live_job_keeps_its_key_beyond_the_period_and_begins_no_other(firm: Any) -> None:
    first = one(firm)
    with later(HOUR + 1):
        assert one(firm).job_id == first.job_id
        finish(take_one(), Completed({}))
        assert one(firm).created


@pytest.mark.parametrize("job_type", ["test.work", "test.once"])
def test_kept_for_ever_is_not_given_up_and_a_plain_key_knows_no_period(
    firm: Any, job_type: str
) -> None:
    first = enqueue(job_type, firm=firm, idempotency_key="key")
    finish(take_one(), Completed({}))
    with later(HOUR * 100):
        assert one(firm).created is (job_type == "test.work")
        assert not one(firm).created
    assert row(first.job_id).status == "completed"


@pytest.mark.parametrize("key", [{}, {"unique_for": HOUR}], ids=["once only", "for an hour"])
def test_the_key_of_a_deleted_job_leads_to_no_job(firm: Any, key: dict[str, Any]) -> None:
    def again() -> EnqueueResult:
        job_type = "test.work" if key else "test.once"
        return enqueue(job_type, firm=firm, idempotency_key="key", **key)

    first = again()
    finish(take_one(), Completed({}))
    with all_firms("test"):
        JobQueue.objects.filter(pk=first.job_id).delete()
    result = again()
    assert (result.job_id, result.created) == (first.job_id, False)
    for ask in (lambda: result.job, lambda: result.wait(1)):
        with pytest.raises(UnknownJob, match=f"job {first.job_id} is deleted"):
            ask()


def test_without_a_key_type_and_payload_are_the_key(firm: Any, once_an_hour: None) -> None:
    first = enqueue("test.hourly", {"name": "a"}, firm=firm, correlation_id="one")
    finish(take_one(), Completed({}))
    again = enqueue("test.hourly", {"name": "a", "units": 1}, firm=firm, correlation_id="two")
    assert (again.created, again.job_id) == (False, first.job_id)
    assert enqueue("test.hourly", {"name": "b"}, firm=firm).created
    assert enqueue("test.hourly", {"name": "a"}, firm=firm, unique_for=1).created is False


def test_a_hundred_racing_enqueues_make_one_job_also_when_the_period_ends(firm: Any) -> None:
    def race(_: int) -> tuple[UUID, bool]:
        try:
            result = one(firm)
            return result.job_id, result.created
        finally:
            connection.close()

    for expected in (1, 2):
        with ThreadPoolExecutor(10) as threads:
            outcomes = list(threads.map(race, range(100)))
        assert len({job_id for job_id, _ in outcomes}) == 1
        assert sum(created for _, created in outcomes) == 1
        assert len(rows(JobQueue)) == expected
        finish(take_one(), Completed({}))
        (key,) = rows(IdempotencyKey)
        expire(key)


def expire(key: IdempotencyKey) -> None:
    with all_firms("test"):
        IdempotencyKey.objects.filter(pk=key.pk).update(expires_at=key.created_at)


def test_keys_are_purged_when_their_period_is_over(firm: Any) -> None:
    one(firm, "short")
    one(firm, "long", user=None)
    enqueue("test.once", firm=firm, idempotency_key="for ever")
    short = next(key for key in rows(IdempotencyKey) if key.key == "short")
    expire(short)
    prune(firm)
    assert {key.key for key in rows(IdempotencyKey)} == {"long", "for ever"}


def test_the_purge_reads_an_index_of_the_keys_that_expire(firm: Any) -> None:
    sql = "SELECT id FROM jobs_idempotencykey WHERE firm_id = 1 AND expires_at <= '2026-01-01'"
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET enable_seqscan = off")
            cursor.execute(f"EXPLAIN {sql}")
        else:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
        plan = str(cursor.fetchall())
        if connection.vendor == "postgresql":
            cursor.execute("RESET enable_seqscan")
    assert "idempotency_key_expiry" in plan


def test_a_job_that_keeps_no_key_touches_no_key(firm: Any) -> None:
    with CaptureQueriesContext(connection) as asked:
        enqueue("test.work", firm=firm)
        enqueue("test.work", firm=firm, idempotency_key="key")
        one(firm, "kept")
    about_keys = ["jobs_idempotencykey" in query["sql"] for query in asked]
    inserts = ["INSERT INTO jobs_jobqueue" in query["sql"] for query in asked]
    assert inserts.index(True) < about_keys.index(True)
    assert sum(inserts[: about_keys.index(True)]) == 2


@pytest.mark.parametrize("period", [0, -1, timedelta(0), 1e12])
def test_an_impossible_period_is_refused(firm: Any, period: Any) -> None:
    with pytest.raises(PayloadInvalid) as refused:
        enqueue("test.work", firm=firm, idempotency_key="key", unique_for=period)
    assert [fault.field for fault in refused.value.faults] == ["unique_for"]


def test_a_type_is_unique_for_a_period_or_for_ever() -> None:
    declare = job("test.both", category="sync", payload=WorkPayload, once_only=True, unique_for=1)
    with pytest.raises(ValueError, match="for ever"):
        declare(lambda payload, ctx: None)
