"""Jobs run in the test's own process, inside its transaction or outside any."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.db import connection
from django.test import TestCase, TransactionTestCase

from jobs.engine.clock import database_now
from jobs.engine.outcomes import Completed, Retry
from jobs.errors import PayloadInvalid
from jobs.models import DeadLetterQueue, Schedule
from jobs.operations.schedules import create_schedule
from jobs.queue import acquire_lock, cancel, enqueue
from jobs.registry import Scheduled, job
from jobs.testing import (
    NotRunnable,
    assert_enqueued,
    assert_idempotent,
    drain,
    enqueued,
    frozen_time,
    run_job,
    run_schedules,
)
from tenants.models import SYSTEM_SLUG, Firm
from tenants.scope import all_firms, firm_scope
from tests.jobs.testing.conftest import NamePayload, add_once

pytestmark = pytest.mark.req("J-27")


class InATransaction(TestCase):
    """Django's ordinary test case, in which nothing is ever committed."""

    def test_follow_ups_and_locks(self) -> None:
        check_follow_ups_and_locks(inside=True)


@pytest.mark.django_db
@pytest.mark.filterwarnings("error")
def test_the_kit_uses_nothing_that_django_is_to_remove() -> None:
    enqueue("kit.pass_on", {"name": "ada"})
    assert drain().counts == {"completed": 2}


class OnCommittedRows(TransactionTestCase):
    """Django's other test case, in which everything is committed."""

    def test_follow_ups_and_locks(self) -> None:
        check_follow_ups_and_locks(inside=False)


def check_follow_ups_and_locks(*, inside: bool) -> None:
    assert connection.in_atomic_block is inside
    for _ in range(2):
        enqueue("kit.pass_on", {"name": "ada"})
    enqueue("kit.pass_on", {"name": "bob"})
    report = drain()
    assert report.counts == {"completed": 6}
    assert [job.job_type for job in report.jobs[:3]] == ["kit.pass_on"] * 3
    assert_enqueued("kit.keyed", count=2, payload={"name": "ada"}, status="completed")
    assert_enqueued("kit.keyed", payload={"name": "bob"}, status="completed")
    assert drain().ran == ()


@pytest.mark.django_db
class TestRunJob:
    def test_a_type_and_its_payload(self) -> None:
        job = run_job("kit.add", {"name": "new"}, priority=0)
        assert (job.status, job.result, job.priority) == ("completed", {"added": "new"}, 0)
        assert User.objects.filter(username="new").exists()

    def test_a_stored_job_however_it_is_named(self) -> None:
        results = [enqueue("kit.add", {"name": name}) for name in "abc"]
        assert run_job(results[2]).job_id == results[2].job_id
        assert run_job(results[1].job_id).status == "completed"
        assert run_job(results[0].job).status == "completed"

    def test_what_the_handler_raises_is_an_outcome(self) -> None:
        job = run_job("kit.fail_first")
        assert (job.status, job.attempts, job.last_error) == ("pending", 1, "not yet")
        job = run_job("kit.give_up")
        assert (job.status, job.last_error) == ("dlq", "no use")
        with all_firms("test"):
            assert DeadLetterQueue.objects.get().original_job_id == job.job_id

    def test_an_async_handler(self) -> None:
        assert run_job("kit.async").result == {"attempt": 1}

    def test_it_runs_this_job_and_no_other(self) -> None:
        first = enqueue("kit.add", priority=0)
        job = run_job("kit.add", {"name": "bob"}, priority=3)
        assert job.payload["name"] == "bob"
        assert first.job.status == "pending"

    def test_follow_ups_wait(self) -> None:
        run_job("kit.pass_on")
        assert_enqueued("kit.keyed", status="pending")

    def test_what_cannot_run_says_why(self) -> None:
        with pytest.raises(NotRunnable, match="scheduled in"):
            run_job("kit.add", delay=3600)
        done = run_job("kit.add")
        with pytest.raises(NotRunnable, match="it is completed"):
            run_job(done)
        stopped = cancel(enqueue("kit.add").job)
        with pytest.raises(NotRunnable, match="it is canceled"):
            run_job(stopped)
        assert acquire_lock("name:ada", 60)
        with pytest.raises(NotRunnable, match="lock name:ada has been held"):
            run_job("kit.keyed", {"name": "ada"})

    def test_nobody_runs_a_job_inside_a_scope(self, firm: Firm) -> None:
        with firm_scope(firm):
            with pytest.raises(RuntimeError, match="outside of firm_scope"):
                run_job("kit.add")
            with pytest.raises(RuntimeError, match="outside of firm_scope"):
                drain()
        assert enqueued() == []


@pytest.mark.django_db
class TestDrain:
    def test_by_priority(self) -> None:
        ids = [enqueue("kit.add", priority=priority).job_id for priority in (3, 1, 2, 0)]
        ran = [one.job_id for one in drain().ran]
        assert ran == [ids[3], ids[1], ids[2], ids[0]]

    def test_backoff_waits_for_the_clock_and_has_no_jitter(self) -> None:
        with frozen_time() as clock:
            failing = enqueue("kit.fail_first")
            report = drain()
            assert report.counts == {"retried": 1}
            assert isinstance(report.ran[0].outcome, Retry)
            assert "RuntimeError: not yet" in str(report)
            clock.tick(seconds=59.9)
            assert drain().ran == ()
            clock.tick(seconds=0.1)
            (ran,) = drain().ran
        assert (ran.job_id, ran.end, ran.outcome) == (failing.job_id, "completed", Completed({}))

    def test_the_future_stays(self) -> None:
        moment = database_now() + timedelta(days=1)
        enqueue("kit.add", at=moment)
        assert str(drain()) == "nothing was runnable"
        with frozen_time(moment):
            assert drain().counts == {"completed": 1}

    def test_expired_jobs_fail_without_a_run(self) -> None:
        late = enqueue("kit.add", delay=60, expires_at=database_now() + timedelta(seconds=60))
        with frozen_time() as clock:
            clock.tick(hours=1)
            assert drain().ran == ()
        assert late.job.status == "failed"

    def test_as_many_as_asked_for(self) -> None:
        enqueue("kit.round")
        assert drain(max_jobs=3).counts == {"completed": 3}
        assert_enqueued("kit.round", count=4)
        assert drain(max_jobs=0).ran == ()

    def test_a_queue_that_feeds_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("jobs.testing.run.MAX_CHAIN", 5)
        enqueue("kit.round")
        with pytest.raises(
            AssertionError, match=r"feeds itself: 5 attempts, the last of kit\.round"
        ):
            drain()


EITHER_WAY = [
    pytest.param(True, marks=pytest.mark.django_db, id="inside"),
    pytest.param(False, marks=pytest.mark.django_db(transaction=True), id="outside"),
]


@pytest.mark.parametrize("inside", EITHER_WAY)
class TestTransactions:
    def test_coroutines_see_what_the_test_wrote(self, inside: bool) -> None:
        assert connection.in_atomic_block is inside
        User.objects.create(username="ada")
        job = run_job("kit.async_step", {"name": "ada"})
        assert (job.status, job.result, job.last_error) == ("completed", {"done": True}, "")
        assert User.objects.get(username="ada").first_name == "done"
        assert_enqueued("kit.keyed", status="pending")

    def test_a_job_that_completes_in_its_own_transaction(self, inside: bool) -> None:
        assert connection.in_atomic_block is inside
        enqueue("kit.transaction", {"name": "ada"})
        report = drain()
        assert report.counts == {"completed": 1}
        assert report.jobs[0].result == {"added": "ada"}
        assert User.objects.filter(first_name="ada").count() == 1

    def test_the_commit_comes_when_the_handler_has_ended(self, inside: bool) -> None:
        assert connection.in_atomic_block is inside
        enqueue("kit.on_commit")
        drain()
        assert [letter.subject for letter in mail.outbox] == ["Dear ada"]

    def test_a_handler_that_breaks_its_transaction_breaks_no_more(self, inside: bool) -> None:
        assert connection.in_atomic_block is inside
        run_job("kit.add", {"name": "kept"})
        enqueue("kit.break")
        enqueue("kit.add", {"name": "after"})
        report = drain()
        assert report.counts == {"retried": 1, "completed": 1}
        assert "IntegrityError" in str(report)
        assert User.objects.filter(username__in=["kept", "after"]).count() == 2

    @pytest.mark.parametrize(
        ("how", "status"), [("python", "dlq"), ("database", "pending")], ids=["python", "database"]
    )
    def test_what_fails_on_commit_is_the_outcome(self, inside: bool, how: str, status: str) -> None:
        assert connection.in_atomic_block is inside
        run_job("kit.add", {"name": "kept"})
        job = run_job("kit.fail_on_commit", {"options": {"how": how, "completing": False}})
        assert job.status == status
        assert job.last_error
        assert User.objects.filter(username__in=["kept", "ada"]).count() == 2

    @pytest.mark.parametrize("raises", ["", "its own"])
    def test_a_transaction_left_open_fails_the_attempt_and_is_undone(
        self, inside: bool, raises: str
    ) -> None:
        assert connection.in_atomic_block is inside
        run_job("kit.add", {"name": "kept"})
        job = run_job("kit.leave_open", {"options": {"raises": raises}})
        assert job.status == "pending"
        assert (raises or "the handler left a transaction open") in job.last_error
        assert list(User.objects.values_list("username", flat=True)) == ["kept"]
        assert mail.outbox == []
        assert connection.in_atomic_block is inside

    @pytest.mark.parametrize("how", ["python", "database"])
    def test_what_fails_on_commit_of_a_completed_job_changes_nothing(
        self, inside: bool, how: str
    ) -> None:
        assert connection.in_atomic_block is inside
        job = run_job("kit.fail_on_commit", {"options": {"how": how, "completing": True}})
        assert job.status == "completed"
        assert User.objects.filter(username="ada").exists()


@pytest.mark.django_db
def test_what_a_broken_transaction_wanted_on_commit_is_not_done() -> None:
    enqueue("kit.break")
    drain()
    assert mail.outbox == []
    assert not User.objects.filter(username="twice").exists()


@pytest.mark.django_db
def test_a_wide_queue_drains_and_a_long_chain_is_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jobs.testing.run.MAX_CHAIN", 10)
    enqueue("kit.wide", {"options": {"children": 45}})
    assert drain().counts == {"completed": 46}
    enqueue("kit.again", max_attempts=100)
    with pytest.raises(AssertionError, match=r"feeds itself: 10 attempts, the last of kit\.again"):
        drain()


@pytest.mark.django_db
def test_a_function_in_place_of_its_types_name_is_told_so() -> None:
    told = "must be the name of a job type, not function: .* pass 'kit.add'"
    for call in (run_job, run_schedules, assert_idempotent):
        with pytest.raises(PayloadInvalid, match=told):
            call(add_once)  # type: ignore[arg-type]


@pytest.mark.req("J-16")
@pytest.mark.django_db
@pytest.mark.parametrize("how", ["kit.canceled", "kit.canceled_and_asks", "kit.canceled_async"])
def test_a_cancel_during_the_run_is_seen_as_a_worker_would_see_it(how: str) -> None:
    job = run_job(how)
    assert (job.status, job.progress) == ("canceled", 0.1)


@pytest.mark.req("S-01")
@pytest.mark.django_db
def test_schedules_run_when_the_clock_says_so() -> None:
    with frozen_time("2026-03-01T07:59:30Z") as clock:
        create_schedule("Ada's", "kit.add", cron="0 8 * * *", payload={"name": "ada"})
        create_schedule("Bob's", "kit.append", interval_seconds=60, payload={"name": "bob"})
        assert run_schedules() == 0
        clock.tick(seconds=30)
        assert run_schedules("kit.add") == 1
        assert_enqueued("kit.add", payload={"name": "ada"})
        clock.tick(seconds=30)
        assert run_schedules() == 1
        assert drain().counts == {"completed": 2}


@pytest.mark.req("S-01", "S-02")
@pytest.mark.django_db
@pytest.mark.usefixtures("system_firm")
def test_a_schedule_declared_with_its_type(
    firm: Firm, other_firm: Firm, job_types: dict[str, Any]
) -> None:
    nightly = Scheduled(cron="0 3 * * *", time_zone="Europe/Vienna", every_firm=True)
    declare = job("kit.nightly", category="sync", payload=NamePayload, priority=3, schedule=nightly)
    declare(lambda payload, ctx: {"ran": payload.name})
    with frozen_time("2026-03-01T01:59:00Z") as clock:
        assert run_schedules("kit.nightly") == 0
        clock.tick(minutes=1)
        assert run_schedules("kit.nightly") == 2
        for one in (firm, other_firm):
            assert_enqueued("kit.nightly", firm=one, priority=3)
        # The declaration changes, and a starting worker stores it.
        del job_types["kit.nightly"]
        hourly = Scheduled(every_seconds=3600, payload={"name": "ada"})
        job("kit.nightly", category="sync", payload=NamePayload, schedule=hourly)(add_once)
        assert run_schedules("kit.nightly") == 0
        clock.tick(hours=1)
        assert run_schedules("kit.nightly") == 1
        assert_enqueued("kit.nightly", payload={"name": "ada"})
        # For a day there is no worker, so the missed slots run once.
        clock.tick(hours=24)
        assert run_schedules("kit.nightly") == 1
    with pytest.raises(ValueError, match="either cron or every_seconds"):
        Scheduled()


@pytest.mark.req("S-01")
@pytest.mark.django_db
def test_a_rare_schedule_makes_up_for_what_it_missed_unless_told_otherwise() -> None:
    with frozen_time("2026-03-01T12:00:00Z") as clock:
        create_schedule("daily", "kit.add", cron="0 8 * * *", payload={"name": "daily"})
        create_schedule("hourly", "kit.add", cron="0 * * * *", payload={"name": "hourly"})
        create_schedule(
            "skips", "kit.add", cron="0 8 * * *", payload={"name": "skips"}, missed_runs="skip"
        )
        clock.tick(hours=26.5)
        assert run_schedules() == 1
        assert_enqueued("kit.add", payload={"name": "daily"})


@pytest.mark.req("S-01")
@pytest.mark.django_db
def test_a_schedule_that_leads_to_no_job_fails_the_test() -> None:
    with frozen_time("2026-03-01T07:59:30Z") as clock:
        row = create_schedule("Ada's", "kit.add", interval_seconds=60)
        with all_firms("test"):
            Schedule.objects.filter(pk=row.pk).update(payload={"nme": "a slip"})
        clock.tick(minutes=1)
        with pytest.raises(AssertionError, match=r"lead to no job: kit\.add: .*nme"):
            run_schedules()


class TestAfterAFlush:
    """Django empties every table after a TransactionTestCase, also that of the firms."""

    @pytest.mark.django_db
    def test_the_reserved_firm_comes_back(self) -> None:
        with all_firms("test"):
            Firm.objects.all().delete()
        assert run_job("kit.add").firm.slug == SYSTEM_SLUG
