"""Deletions beside a caller's open transaction: they leave what it has locked, and wait for nobody."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from jobs.engine.prune import prune
from jobs.models import ConcurrencyLock, JobQueue
from jobs.models.base import id_at
from jobs.operations.deletion import delete_firm, delete_user
from jobs.queue import acquire_lock, release_lock, retry
from jobs.testing import drain, run_job
from tenants.models import Firm, Membership, Role
from tenants.scope import all_firms
from tests.factories.jobs import JobQueueFactory
from tests.factories.tenants import UserFactory
from tests.faults.test_open_transactions import open_transaction
from tests.queue_kit import later, rows
from tests.support.databases import postgresql_only

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("waits_for_no_lock"),
    postgresql_only,
]

OLD = timedelta(days=100)


def jobs() -> set[Any]:
    """Return the ids of all jobs but those of deletions."""
    with all_firms("test"):
        return set(
            JobQueue.objects.exclude(job_type__contains="delete").values_list("pk", flat=True)
        )


def of_user(firm: Firm, **columns: Any) -> tuple[Callable[[], JobQueue], list[JobQueue]]:
    """Return what deletes a user, and three jobs on the user's behalf."""
    user = UserFactory(username="a@x.example")
    made = [JobQueueFactory(firm=firm, user=user, **columns) for _ in range(3)]
    return lambda: delete_user(user, "asked for it"), made


def of_firm(firm: Firm, **columns: Any) -> tuple[Callable[[], JobQueue], list[JobQueue]]:
    """Return what deletes the firm, and three of its jobs."""
    made = [JobQueueFactory(firm=firm, **columns) for _ in range(3)]
    return lambda: delete_firm(firm, "the contract ended"), made


@pytest.mark.parametrize("of", [of_user, of_firm])
def test_a_deletion_leaves_a_locked_job_and_comes_back_to_it(firm: Firm, of: Any) -> None:
    delete, (_, locked, _) = of(firm, status="failed")
    job = delete()
    with open_transaction(firm, lambda: retry(locked)):
        assert [one.end for one in drain(max_jobs=1).ran] == ["snoozed"]
        assert jobs() == {locked.pk}
    with later(60):
        assert run_job(job).status == "completed"
    assert jobs() == set()
    assert not get_user_model().objects.exists()


@pytest.mark.parametrize("of", [of_user, of_firm])
def test_a_deletion_asks_the_other_jobs_in_flight_to_end(firm: Firm, of: Any) -> None:
    delete, (first, locked, last) = of(firm, status="processing", attempts=1)
    delete()

    def lock() -> None:
        assert JobQueue.objects.select_for_update().get(pk=locked.pk)

    with open_transaction(firm, lock):
        assert [one.end for one in drain(max_jobs=1).ran] == ["snoozed"]
    with all_firms("test"):
        asked = JobQueue.objects.filter(cancel_requested_at__isnull=False)
        assert set(asked.values_list("pk", flat=True)) == {first.pk, last.pk}


@pytest.mark.req("J-22")
def test_a_purge_leaves_a_locked_job_to_the_next_one(firm: Firm) -> None:
    moment = timezone.now() - OLD
    _, locked, _ = (
        JobQueueFactory(firm=firm, pk=id_at(moment), status="failed", completed_at=moment)
        for moment in (moment, moment + timedelta(seconds=1), moment + timedelta(seconds=2))
    )
    with open_transaction(firm, lambda: retry(locked)), all_firms("test"):
        assert prune(firm).jobs == 2
    assert jobs() == {locked.pk}


@pytest.mark.req("J-22")
def test_a_purge_leaves_a_lock_that_is_about_to_be_taken_over(firm: Firm) -> None:
    for key in ("a", "b"):
        assert acquire_lock(key, 0.001, firm=firm)
    with (
        later(1),
        open_transaction(firm, lambda: acquire_lock("a", 60, firm=firm)),
        all_firms("test"),
    ):
        assert prune(firm).locks == 1
    assert [lock.lock_key for lock in rows(ConcurrencyLock)] == ["a"]


def lock_of_firm(firm: Firm) -> tuple[Callable[[], JobQueue], Callable[[], object]]:
    """Return what deletes the firm, and what locks a row of it that is no job."""
    held = acquire_lock("a", 3600, firm=firm)
    assert held is not None
    return lambda: delete_firm(firm, "the contract ended"), lambda: release_lock(held)


def membership_of_user(firm: Firm) -> tuple[Callable[[], JobQueue], Callable[[], object]]:
    """Return what deletes a user, and what locks the user's membership."""
    user = UserFactory(username="a@x.example", member_of=firm)

    def promote() -> None:
        assert Membership.objects.filter(user=user).update(role=Role.ADMIN) == 1

    return lambda: delete_user(user, "asked for it"), promote


@pytest.mark.parametrize("of", [lock_of_firm, membership_of_user])
def test_a_deletion_comes_back_to_what_else_is_locked(firm: Firm, of: Any) -> None:
    delete, lock = of(firm)
    job = delete()
    with open_transaction(firm, lock):
        assert [one.end for one in drain(max_jobs=1).ran] == ["snoozed"]
    with later(60):
        assert run_job(job).status == "completed"
    assert not rows(ConcurrencyLock)
    assert not get_user_model().objects.exists()
