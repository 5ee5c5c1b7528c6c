"""What the database itself refuses, whoever writes it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from jobs.engine.outcomes import DeadLettered
from jobs.models import ConcurrencyLock, DeadLetterQueue, JobQueue, JobStep
from jobs.states import DeadReason
from tenants.scope import firm_scope
from tests.queue_kit import FAILURE, change, finish, row, take_one

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-01")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "resting"},
        {"category": "gardening"},
        {"priority": 4},
        {"priority": -1},
        {"attempts": 4},
        {"attempts": -1},
        {"max_attempts": -1},
        {"ready": True, "waiting": True},
        {"status": None},
        {"scheduled_at": None},
        {"payload": None},
    ],
    ids=str,
)
def test_a_job_that_cannot_be_is_refused(add, wrong: dict[str, Any]):
    job_id = add()
    with pytest.raises(IntegrityError):
        change(job_id, **wrong)
    assert row(job_id).status == "pending"


@pytest.mark.req("J-07")
def test_two_live_jobs_of_a_firm_cannot_share_a_key(firm, other_firm, add):
    add(idempotency_key="key")
    second, elsewhere = add(), add(firm=other_firm)
    with pytest.raises(IntegrityError):
        change(second, live_key="key")
    change(elsewhere, live_key="key")
    assert row(elsewhere).live_key == "key"


@pytest.mark.req("J-20")
def test_a_slot_is_held_once(firm):
    values = {"lock_key": "key", "slot": 0, "holder_id": "a", "fencing_token": 1}
    with firm_scope(firm):
        ConcurrencyLock.objects.create(**values)
        with pytest.raises(IntegrityError), transaction.atomic():
            ConcurrencyLock.objects.create(**values)
        assert ConcurrencyLock.objects.create(**{**values, "slot": 1}).pk


@pytest.mark.req("D-01")
def test_a_series_dies_once(firm, add):
    job_id = add()
    finish(take_one(), DeadLettered(DeadReason.FATAL, FAILURE))
    with firm_scope(firm), pytest.raises(IntegrityError), transaction.atomic():
        DeadLetterQueue.objects.create(original_job_id=job_id, job_series=1, reason="fatal")
    with firm_scope(firm), pytest.raises(IntegrityError), transaction.atomic():
        DeadLetterQueue.objects.update(reason="boredom")
    with firm_scope(firm), pytest.raises(IntegrityError), transaction.atomic():
        DeadLetterQueue.objects.update(resolution="forgotten")
    with firm_scope(firm):
        assert DeadLetterQueue.objects.get().reason == "fatal"


@pytest.mark.req("J-18")
def test_a_step_has_one_result(firm, add):
    job_id = add()
    with firm_scope(firm):
        JobStep.objects.create(job_id=job_id, name="a", result=1)
        with pytest.raises(IntegrityError), transaction.atomic():
            JobStep.objects.create(job_id=job_id, name="a", result=2)
        assert JobStep.objects.get().result == 1


@pytest.mark.req("J-01")
def test_a_job_needs_no_user_row_and_no_parent_row(add):
    job_id = add()
    change(job_id, user_id=10**9, parent_id=job_id)
    assert row(job_id).user_id == 10**9
    assert JobQueue._meta.get_field("user").db_constraint is False
