"""Storing jobs: what a row holds, when no row is stored, and which job has a key."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.db import connection, transaction
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext
from django.utils.functional import SimpleLazyObject
from pydantic import SecretStr, create_model

from interfaces.correlation import correlation
from jobs.engine import insert, owner
from jobs.engine.outcomes import Canceled, Completed, DeadLettered, Retry, Snoozed
from jobs.errors import PayloadInvalid
from jobs.models import IdempotencyKey, JobQueue
from jobs.queue import EnqueueSpec, aenqueue, enqueue, enqueue_batch, enqueue_many
from jobs.registry import JobPayload, job
from jobs.states import DeadReason, Priority
from tenants.errors import MissingTenant
from tenants.scope import all_firms, firm_scope
from tests.factories.tenants import FirmFactory, UserFactory
from tests.jobs.engine.conftest import WorkPayload
from tests.queue_kit import (
    FAILURE,
    RunningJob,
    as_current_job,
    change,
    finish,
    later,
    row,
    rows,
    take_one,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.req("J-01", "J-03", "J-06")
def test_a_new_job_holds_what_was_asked_for_and_the_rest_by_default(firm):
    user = UserFactory(username="ada")
    expires = datetime(2999, 1, 1, tzinfo=UTC)
    result = enqueue(
        "test.work",
        {"name": "Ada"},
        firm=firm,
        user=user,
        expires_at=expires,
        priority=0,
        max_attempts=7,
        idempotency_key="key",
        correlation_id="abc",
    )
    assert result.created
    stored = result.job
    assert isinstance(stored.job_id, UUID)
    assert stored.job_id.version == 7
    assert stored.payload == {
        "tenant_id": firm.pk, "version": "1.0", "correlation_id": "abc", "name": "Ada",
    }  # fmt: skip
    assert (stored.firm_id, stored.user_id, stored.parent_id) == (firm.pk, user.pk, None)
    assert (stored.category, stored.job_type, stored.payload_version) == (
        "sync",
        "test.work",
        "1.0",
    )
    assert (stored.status, stored.priority, stored.attempts) == ("pending", 0, 0)
    assert (stored.max_attempts, stored.series, stored.deaths) == (7, 1, 0)
    assert (stored.idempotency_key, stored.live_key) == ("key", "key")
    assert (stored.ready, stored.waiting, stored.lock_key) == (True, False, None)
    assert stored.expires_at == expires
    assert stored.correlation_id == "abc"
    assert stored.created_at == stored.updated_at == stored.scheduled_at
    assert stored.claimed_at is stored.started_at is stored.completed_at is None
    assert (stored.last_error, stored.result) == ("", None)


@pytest.mark.req("J-10")
def test_priority_and_attempts_come_from_the_type_where_none_are_given(firm):
    stored = enqueue("test.work", firm=firm).job
    assert (stored.priority, stored.max_attempts) == (2, 3)


@pytest.mark.req("J-06")
def test_a_delay_counts_from_the_databases_time(firm):
    with later(1000) as now:
        ids = [
            enqueue("test.work", firm=firm, delay=90).job_id,
            enqueue("test.work", firm=firm, delay=timedelta(minutes=2)).job_id,
        ]
    waits = [(row(job_id).scheduled_at - now).total_seconds() for job_id in ids]
    assert waits == pytest.approx([90, 120], abs=0.002)


@pytest.mark.req("J-06")
def test_at_takes_any_time_zone(firm):
    moment = datetime(2030, 6, 1, 12, 0, tzinfo=timezone(timedelta(hours=2)))
    assert enqueue("test.work", firm=firm, at=moment).job.scheduled_at == moment


@pytest.mark.req("J-06")
def test_a_job_rolls_back_with_the_callers_transaction(firm):
    with transaction.atomic():
        assert enqueue("test.once", firm=firm, idempotency_key="key").created
        transaction.set_rollback(True)
    assert rows(JobQueue) == rows(IdempotencyKey) == []
    assert enqueue("test.once", firm=firm, idempotency_key="key").created


@pytest.mark.req("J-06")
def test_many_are_stored_in_order_all_or_none(firm):
    specs = [EnqueueSpec("test.work", {"name": str(number)}) for number in range(1_050)]
    results = enqueue_many(specs, firm=firm)
    with all_firms("test"):
        payloads = dict(JobQueue.objects.values_list("job_id", "payload"))
    names = [payloads[result.job_id]["name"] for result in results]
    assert names == [str(number) for number in range(1_050)]
    assert all(result.created for result in results)
    with pytest.raises(PayloadInvalid):
        enqueue_many([EnqueueSpec("test.work"), EnqueueSpec("test.work", {"x": 1})], firm=firm)
    assert len(rows(JobQueue)) == 1_050
    assert enqueue_many([], firm=firm) == []


@pytest.mark.req("J-06")
def test_async_code_can_enqueue_too(firm):
    result = async_to_sync(aenqueue)("test.work", {"name": "async"}, firm=firm)
    assert row(result.job_id).payload["name"] == "async"


@pytest.mark.req("J-03")
def test_the_firm_comes_from_the_scope_or_is_the_only_one(firm, system_firm):
    assert enqueue("test.work").job.firm_id == firm.pk
    other = FirmFactory(name="Globex", slug="globex")
    with pytest.raises(MissingTenant):
        enqueue("test.work")
    with firm_scope(other):
        assert enqueue("test.work").job.firm_id == other.pk
    assert enqueue("test.work", firm=firm.pk).job.firm_id == firm.pk


@pytest.mark.req("J-03", "T-02")
def test_another_firms_id_in_the_payload_is_refused(firm, other_firm):
    with pytest.raises(PayloadInvalid) as caught:
        enqueue("test.work", {"tenant_id": other_firm.pk}, firm=firm)
    assert caught.value.errors[0]["field"] == "tenant_id"
    assert rows(JobQueue) == []


@pytest.mark.req("J-03")
def test_the_correlation_id_is_the_one_in_force_or_a_new_one(firm):
    with correlation("from-request"):
        assert enqueue("test.work", firm=firm).job.correlation_id == "from-request"
    first, second = (enqueue("test.work", firm=firm).job for _ in range(2))
    assert first.correlation_id != second.correlation_id
    assert first.payload["correlation_id"] == first.correlation_id


@pytest.mark.req("J-03")
def test_payload_and_row_agree_on_the_correlation_id(firm):
    stored = enqueue("test.work", {"correlation_id": "mine"}, firm=firm, correlation_id="other").job
    assert stored.payload["correlation_id"] == stored.correlation_id


@pytest.mark.req("J-03")
def test_the_correlation_id_given_to_enqueue_wins(firm):
    copied = {"correlation_id": "another-job's"}
    stored = enqueue("test.work", copied, firm=firm, correlation_id="mine").job
    assert (stored.correlation_id, stored.payload["correlation_id"]) == ("mine", "mine")
    assert enqueue("test.work", copied, firm=firm).job.correlation_id == "another-job's"
    (one,) = enqueue_batch([EnqueueSpec("test.work", copied)], firm=firm).jobs
    assert one.job.correlation_id == "another-job's"


@pytest.mark.req("J-01")
def test_a_child_knows_its_parent_unless_it_is_another_firms(firm, other_firm):
    parent = enqueue("test.work", firm=firm).job_id
    with as_current_job(RunningJob(parent, firm.pk)):
        assert enqueue("test.work").job.parent_id == parent
        assert enqueue("test.work", firm=other_firm).job.parent_id is None


NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 - the missing time zone is tested

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ARGUMENTS: list[tuple[dict[str, Any], str, str]] = [
    ({"priority": 4}, "priority", "out_of_range"),
    ({"priority": -1}, "priority", "out_of_range"),
    ({"priority": 2.0}, "priority", "wrong_type"),
    ({"priority": True}, "priority", "wrong_type"),
    ({"priority": "2"}, "priority", "wrong_type"),
    ({"max_attempts": 3.0}, "max_attempts", "wrong_type"),
    ({"max_attempts": True}, "max_attempts", "wrong_type"),
    ({"max_attempts": "3"}, "max_attempts", "wrong_type"),
    ({"max_attempts": 0}, "max_attempts", "out_of_range"),
    ({"max_attempts": 40_000}, "max_attempts", "out_of_range"),
    ({"delay": -1}, "delay", "out_of_range"),
    ({"delay": float("nan")}, "delay", "out_of_range"),
    ({"delay": float("inf")}, "delay", "out_of_range"),
    ({"delay": 1e12}, "delay", "out_of_range"),
    ({"delay": 1, "at": datetime(2030, 1, 1, tzinfo=UTC)}, "delay", "conflict"),
    ({"at": NAIVE}, "at", "naive_time"),
    ({"expires_at": NAIVE}, "expires_at", "naive_time"),
    ({"at": "2026-01-01"}, "at", "wrong_type"),
    ({"at": date(2026, 1, 1)}, "at", "wrong_type"),
    ({"expires_at": 1}, "expires_at", "wrong_type"),
    ({"at": NOON, "expires_at": NOON}, "at", "after_expiry"),
    ({"delay": "soon"}, "delay", "wrong_type"),
    ({"delay": 10**400}, "delay", "out_of_range"),
    ({"unique_for": []}, "unique_for", "wrong_type"),
    ({"user": get_user_model()(username="x")}, "user", "not_stored"),
    ({"user": 9999}, "user", "unknown"),
    ({"user": "9999"}, "user", "unknown"),
    ({"user": 2**63}, "user", "wrong_type"),
    ({"user": -1}, "user", "unknown"),
    ({"user": "ada"}, "user", "wrong_type"),
    ({"user": []}, "user", "wrong_type"),
    ({"user": float("inf")}, "user", "wrong_type"),
    # True must not be taken for the user whose id is 1.
    ({"user": True}, "user", "wrong_type"),
    ({"user": 1.5}, "user", "wrong_type"),
    ({"user": Decimal("1.5")}, "user", "wrong_type"),
    ({"user": Decimal("Infinity")}, "user", "wrong_type"),
    ({"idempotency_key": UUID(int=1)}, "idempotency_key", "wrong_type"),
    ({"idempotency_key": 7}, "idempotency_key", "wrong_type"),
    ({"idempotency_key": "\ud800"}, "idempotency_key", "surrogate"),
    ({"limit_key": 7}, "limit_key", "wrong_type"),
    ({"lock_key": ""}, "lock_key", "wrong_length"),
    ({"lock_key": "x" * 201}, "lock_key", "wrong_length"),
    ({"idempotency_key": "a\x00b"}, "idempotency_key", "wrong_length"),
    ({"idempotency_key": "x" * 201}, "idempotency_key", "wrong_length"),
    ({"correlation_id": "x" * 65}, "correlation_id", "wrong_length"),
]


@pytest.mark.req("J-03", "J-06")
@pytest.mark.parametrize(("arguments", "field", "code"), ARGUMENTS)
def test_an_impossible_argument_is_refused_by_name(firm, arguments, field, code):
    with pytest.raises(PayloadInvalid) as caught:
        enqueue("test.work", firm=firm, **arguments)
    assert [(fault["field"], fault["code"]) for fault in caught.value.errors] == [(field, code)]
    assert rows(JobQueue) == []


@pytest.mark.req("J-01", "J-06")
@pytest.mark.parametrize("store", [enqueue_many, enqueue_batch])
def test_users_named_by_their_ids_are_looked_up_at_once(firm, store):
    users = [UserFactory(username=f"user{n}") for n in range(5)]
    owner._seen.clear()
    with CaptureQueriesContext(connection) as asked:
        store([EnqueueSpec("test.work", user=str(user.pk)) for user in users], firm=firm)
    assert sum('FROM "auth_user"' in query["sql"] for query in asked.captured_queries) == 1
    assert {job.user_id for job in rows(JobQueue)} == {user.pk for user in users}
    with pytest.raises(PayloadInvalid, match="user: no user has the id 9999"):
        store([EnqueueSpec("test.work", user=user) for user in (users[0], 9999)], firm=firm)
    assert len(rows(JobQueue)) == len(users)


@pytest.mark.req("J-06")
def test_a_visitor_who_did_not_sign_in_is_no_user(firm):
    visitor = SimpleLazyObject(AnonymousUser)
    assert enqueue("test.work", firm=firm, user=visitor).job.user_id is None


@pytest.mark.req("J-05", "J-20")
def test_a_key_of_the_type_that_is_no_text_is_refused_by_name(firm, job_types):
    job("test.numbered", category="sync", payload=WorkPayload, lock_key=lambda p: p.units)(
        lambda payload, ctx: None
    )
    with pytest.raises(PayloadInvalid, match="lock_key: must be a string"):
        enqueue("test.numbered", firm=firm)


@pytest.mark.req("J-06")
@pytest.mark.parametrize("field", ["priority", "max_attempts"])
def test_a_number_that_is_not_whole_is_refused_in_a_bulk_of_different_ones(firm, field):
    specs = [EnqueueSpec("test.work", {}, **{field: number}) for number in (1, 2, 3.0)]
    with pytest.raises(PayloadInvalid, match=field):
        enqueue_many(specs, firm=firm)
    assert rows(JobQueue) == []


@pytest.mark.req("J-06")
def test_members_of_an_enum_are_whole_numbers(firm):
    class Tries(IntEnum):
        FEW = 2

    stored = enqueue("test.work", firm=firm, priority=Priority.LOW, max_attempts=Tries.FEW).job
    assert (stored.priority, stored.max_attempts) == (3, 2)


@pytest.mark.req("J-07")
def test_a_live_key_stands_for_one_job_in_each_firm(firm, other_firm):
    first = enqueue("test.work", {"name": "first"}, firm=firm, idempotency_key="key")
    again = enqueue("test.work", {"name": "again"}, firm=firm, idempotency_key="key")
    elsewhere = enqueue("test.work", firm=other_firm, idempotency_key="key")
    assert (first.created, again.created, elsewhere.created) == (True, False, True)
    assert again.job_id == first.job_id != elsewhere.job_id
    assert again.job.payload["name"] == "first"


@pytest.mark.req("J-07")
def test_one_bulk_may_name_a_key_twice(firm):
    specs = [EnqueueSpec("test.work", idempotency_key=key) for key in ("a", "b", "a", "b", "a")]
    results = enqueue_many(specs, firm=firm)
    assert [result.created for result in results] == [True, True, False, False, False]
    assert len({result.job_id for result in results}) == 2


@pytest.mark.req("J-07")
def test_the_type_may_derive_the_key(firm):
    first = enqueue("test.named", {"name": "a"}, firm=firm)
    assert first.job.idempotency_key == "named:a"
    assert not enqueue("test.named", {"name": "a"}, firm=firm).created
    assert enqueue("test.named", {"name": "b"}, firm=firm).created


@pytest.mark.req("J-07")
@pytest.mark.parametrize(
    ("outcome", "freed"),
    [
        (Completed({}), True),
        (Canceled("no"), True),
        (DeadLettered(DeadReason.FATAL, FAILURE), True),
        (Retry(1, FAILURE), False),
        (Snoozed(delay_seconds=1), False),
    ],
)
def test_the_key_is_free_when_the_job_is_over(firm, outcome, freed):
    first = enqueue("test.work", firm=firm, idempotency_key="key")
    held = take_one()
    assert not enqueue("test.work", firm=firm, idempotency_key="key").created
    finish(held, outcome)
    assert enqueue("test.work", firm=firm, idempotency_key="key").created is freed
    assert row(first.job_id).idempotency_key == "key"


@pytest.mark.req("J-07")
def test_a_once_only_key_is_never_free_again(firm, other_firm):
    first = enqueue("test.once", firm=firm, idempotency_key="key")
    finish(take_one(), Completed({}))
    again = enqueue("test.once", firm=firm, idempotency_key="key")
    assert (again.created, again.job_id) == (False, first.job_id)
    with all_firms("test"):
        JobQueue.objects.all().delete()
    gone = enqueue("test.once", firm=firm, idempotency_key="key")
    assert (gone.created, gone.job_id) == (False, first.job_id)
    assert enqueue("test.once", firm=other_firm, idempotency_key="key").created


@pytest.mark.req("J-07")
def test_without_a_key_the_payload_of_a_once_only_job_is_its_key(firm, other_firm):
    first = enqueue("test.once", {"name": "Ada"}, firm=firm)
    finish(take_one(), Completed({}))
    again = enqueue("test.once", {"name": "Ada"}, firm=firm)
    assert (again.job_id, again.created) == (first.job_id, False)
    assert enqueue("test.once", {"name": "Grace"}, firm=firm).created
    assert enqueue("test.once", {"name": "Ada"}, firm=firm, idempotency_key="own").created
    assert enqueue("test.once", {"name": "Ada"}, firm=other_firm).created


@pytest.mark.req("J-07")
def test_what_a_payload_hides_is_part_of_that_key(firm, job_types):
    schema = create_model("HidingPayload", __base__=JobPayload, pin=(SecretStr, ...))
    job("test.hiding", category="sync", payload=schema, once_only=True)(lambda payload, ctx: None)
    created = [enqueue("test.hiding", {"pin": pin}, firm=firm).created for pin in ("1", "2", "1")]
    assert created == [True, True, False]


@pytest.mark.req("J-07")
def test_one_bulk_may_name_a_once_only_key_twice(firm):
    specs = [EnqueueSpec("test.once", idempotency_key="a") for _ in range(3)]
    results = enqueue_many(specs, firm=firm)
    assert [result.created for result in results] == [True, False, False]


@pytest.mark.req("J-07")
@pytest.mark.parametrize("job_type", ["test.work", "test.once"])
def test_racing_enqueues_make_one_job(firm, job_type):
    def race(_: int) -> tuple[UUID, bool]:
        try:
            result = enqueue(job_type, firm=firm, idempotency_key="key")
            return result.job_id, result.created
        finally:
            connection.close()

    with ThreadPoolExecutor(10) as threads:
        outcomes = list(threads.map(race, range(100)))
    assert len({job_id for job_id, _ in outcomes}) == 1
    assert sum(created for _, created in outcomes) == 1
    assert len(rows(JobQueue)) == 1


@pytest.mark.req("J-07")
def test_a_key_held_by_a_job_in_flight_stays_held(firm):
    first = enqueue("test.work", firm=firm, idempotency_key="key")
    change(first.job_id, status="processing")
    assert enqueue("test.work", firm=firm, idempotency_key="key").job_id == first.job_id


@pytest.mark.req("J-06")
def test_a_hint_that_fails_after_the_commit_is_no_error_of_the_callers(firm, monkeypatch):
    def fail(_: object) -> None:
        raise OSError("no hint to be had")

    monkeypatch.setattr(insert, "wake", fail)
    result = enqueue("test.work", {"name": "Ada"}, firm=firm)
    assert row(result.job_id).status == "pending"


@pytest.mark.req("J-06")
def test_a_single_enqueue_whose_key_is_held_finds_the_holder(firm):
    first = enqueue("test.work", {"name": "x"}, firm=firm, idempotency_key="key")
    second = enqueue("test.work", {"name": "x"}, firm=firm, idempotency_key="key")
    assert (first.created, second.created) == (True, False)
    assert first.job_id == second.job_id


@pytest.mark.parametrize("key", [None, "once"])
def test_a_transaction_that_will_roll_back_takes_no_job(firm, key):
    spec = EnqueueSpec("noop", {}, idempotency_key=key)
    with transaction.atomic():
        transaction.set_rollback(True)
        with pytest.raises(TransactionManagementError):
            enqueue("noop", {}, firm=firm, idempotency_key=key)
        with pytest.raises(TransactionManagementError):
            enqueue_many([spec], firm=firm)
    # The connection can still be used.
    assert enqueue("noop", {}, firm=firm).created


class Replicas:
    """Sends reads to a replica that does not have any rows yet."""

    def db_for_read(self, model: type[Any], **_: Any) -> str:
        return "replica"

    def db_for_write(self, model: type[Any], **_: Any) -> str:
        return "default"


@pytest.mark.req("J-11", "A-01")
def test_who_exists_is_asked_of_the_primary(firm, settings):
    user = UserFactory(username="ada")
    owner._seen.clear()
    settings.DATABASE_ROUTERS = [f"{__name__}.Replicas"]
    assert owner.exists("user", user.pk)
    assert owner.exists("firm", firm.pk)
