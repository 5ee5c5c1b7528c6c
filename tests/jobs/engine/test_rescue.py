"""Rescue: what happens to the jobs of a dead worker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID, uuid4

import pytest
from django.db import connection

from jobs.conf import lease_seconds
from jobs.engine import dialects
from jobs.engine import release as release_module
from jobs.engine import rescue as module
from jobs.engine.admission import sweep
from jobs.engine.claim import claim
from jobs.engine.clock import stopped_at
from jobs.engine.fair_share import FairShare
from jobs.engine.lease import deregister, heartbeat, mark_processing, note_running
from jobs.engine.outcomes import Completed, Retry
from jobs.engine.release import release
from jobs.engine.rescue import (
    RescueReport,
    awaits_rescue,
    rescue,
    rescue_orphans,
    rescue_reported,
)
from jobs.models import Worker
from jobs.models.base import pack_ids
from jobs.states import Status
from tests.queue_kit import (
    FAILURE,
    attempts,
    change,
    counted,
    dead_letters,
    finish,
    later,
    locks,
    new_worker,
    row,
    take,
    take_one,
    take_started,
)

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("settled_database"),
]


SETTLED = type(dialects.current()).up_longer_than_sql


def after_the_lease() -> RescueReport:
    """Rescue at a time when every lease that is held now is over."""
    with later(lease_seconds() + 1):
        return rescue(Random(1))


def workers() -> list[UUID]:
    return list(Worker.objects.values_list("pk", flat=True))


@pytest.mark.req("J-14")
def test_a_living_workers_jobs_are_left_alone(add):
    job_id = add()
    with later(0) as begun:
        worker_id = new_worker()
        take_started(worker_id)
    with stopped_at(begun + timedelta(seconds=lease_seconds() - 1)):
        assert rescue(Random(1)) == RescueReport()
        assert heartbeat(worker_id, 1)
    with stopped_at(begun + timedelta(seconds=lease_seconds() + 1)):
        assert rescue(Random(1)) == RescueReport()
    assert row(job_id).status == "claimed"
    assert workers() == [worker_id]


@pytest.mark.req("J-13", "J-14")
def test_a_started_job_goes_round_again_with_its_attempt_counted(add):
    job_id = add(idempotency_key="key")
    worker_id = new_worker()
    take_started(worker_id)
    with later(lease_seconds() + 1) as now:
        assert rescue(Random(1)) == RescueReport(workers=1, rescued=1)
    stored = row(job_id)
    assert (stored.status, stored.attempts, stored.deaths) == ("pending", 1, 1)
    assert (stored.worker_id, stored.lease_token, stored.ready) == (None, 0, True)
    assert stored.last_error == "Job timed out (stale claim)"
    assert stored.live_key == "key"
    assert (stored.scheduled_at - now).total_seconds() == pytest.approx(60, abs=0.002)
    (attempt,) = attempts()
    assert (attempt.end, attempt.number, attempt.worker_id) == ("rescued", 1, worker_id)
    assert (attempt.error_class, attempt.message) == (
        "WorkerDied", "the worker died, or sent no heartbeat for a whole lease, while the handler was running",
    )  # fmt: skip
    assert workers() == []


@pytest.mark.req("J-14")
def test_a_job_that_started_with_its_claim_has_its_attempt_counted(add):
    job_id = add()
    assert claim(new_worker(), 1, FairShare(), starts=True)
    assert after_the_lease().rescued == 1
    stored = row(job_id)
    assert (stored.status, stored.attempts, stored.deaths) == ("pending", 1, 1)


@pytest.mark.req("J-14", "J-11")
def test_a_job_that_was_given_back_after_such_a_claim_has_not_started(add):
    job_id = add()
    held = claim(new_worker(), 1, FairShare(), starts=True)
    assert release(held, "worker stopped") == {job_id: Status.PENDING}
    assert row(job_id).started_at is None
    take_one(new_worker())
    assert after_the_lease().rescued == 1
    assert (row(job_id).attempts, row(job_id).deaths) == (0, 0)


@pytest.mark.req("J-14")
def test_a_job_that_had_not_started_loses_nothing(add):
    job_id = add()
    scheduled_at = row(job_id).scheduled_at
    take_one(new_worker())
    assert after_the_lease().rescued == 1
    stored = row(job_id)
    assert (stored.status, stored.attempts, stored.deaths) == ("pending", 0, 0)
    assert (stored.last_error, stored.scheduled_at) == ("", scheduled_at)
    (attempt,) = attempts()
    assert (attempt.end, attempt.error_class) == ("rescued", "NotStarted")
    assert take_one().attempts == 1


@pytest.mark.req("J-14")
def test_of_one_worker_only_the_started_jobs_pay(add):
    ids = [add() for _ in range(4)]
    worker_id = new_worker()
    take(4, worker_id=worker_id)
    note_running(worker_id, pack_ids(ids[:2]))
    note_running(worker_id, pack_ids(ids[1:3]))
    assert after_the_lease() == RescueReport(workers=1, rescued=4)
    assert [row(job_id).attempts for job_id in ids] == [0, 1, 1, 0]


@pytest.mark.req("J-13", "J-14", "J-15")
def test_of_a_worker_whose_supervisor_reports_it_only_what_was_running_pays(add):
    begun, ahead, ended, ran = ids = [add() for _ in range(4)]
    worker_id = new_worker()
    claims = {one.job_id: one for one in take(4, worker_id=worker_id)}
    note_running(worker_id, pack_ids(ids))
    # The row says that `ended` started long enough ago; only its outcome was not stored.
    mark_processing([claims[ended], claims[ran]])

    tokens = [claims[begun].lease_token, claims[ran].lease_token]
    report = rescue_reported(worker_id, tokens, Random(1))

    assert report == RescueReport(workers=1, rescued=4)
    assert [(row(job_id).attempts, row(job_id).deaths) for job_id in ids] == [
        (1, 1),
        (0, 0),
        (0, 0),
        (1, 1),
    ]
    assert {row(job_id).status for job_id in ids} == {"pending"}
    ends = {one.job_id: (one.end, one.error_class) for one in attempts()}
    assert ends[ahead] == ends[ended] == ("rescued", "NotRunning")
    assert ends[begun] == ("rescued", "WorkerDied")
    assert not heartbeat(worker_id, 1)
    assert finish(claims[begun], Completed({})).stale == [claims[begun]]
    # The next rescue finds no jobs left, and removes the worker's row.
    assert rescue(Random(1)) == RescueReport()
    assert workers() == []


@pytest.mark.req("J-12", "J-14")
def test_a_reported_last_attempt_is_given_up_only_if_it_was_running(add):
    ran, waited = add(max_attempts=1), add(max_attempts=1)
    worker_id = new_worker()
    claims = {one.job_id: one for one in take(2, worker_id=worker_id)}
    note_running(worker_id, pack_ids([ran, waited]))
    report = rescue_reported(worker_id, [claims[ran].lease_token], Random(1))
    assert (report.rescued, report.dead_lettered) == (1, 1)
    assert (row(ran).status, row(waited).status) == ("dlq", "pending")


@pytest.mark.req("J-09", "J-14")
def test_a_report_about_a_worker_that_is_gone_or_marked_dead_changes_nothing(add):
    add()
    worker_id = new_worker()
    held = take_started(worker_id)
    deregister(worker_id)
    assert rescue_reported(worker_id, [held.lease_token], Random(1)) == RescueReport()
    assert row(held.job_id).status == "claimed"


@pytest.mark.req("J-14")
def test_who_may_mark_nobody_dead_takes_back_what_others_marked(add):
    dead, silent = add(), add()
    for _ in range(2):
        take(1, worker_id=new_worker())
    Worker.objects.filter(pk=row(dead).worker_id).update(dead_at=datetime.now(UTC))
    with later(lease_seconds() + 1):
        assert awaits_rescue()
        assert rescue(Random(1), mark_dead=False) == RescueReport(rescued=1)
        assert (row(dead).status, row(silent).status) == ("pending", "claimed")
        assert rescue(Random(1)) == RescueReport(workers=1, rescued=1)
        assert not awaits_rescue()


@pytest.mark.req("J-12", "J-14", "D-01")
def test_an_exhausted_job_becomes_a_dead_letter(add):
    job_id = add(max_attempts=1, idempotency_key="key")
    take_started(new_worker())
    report = after_the_lease()
    assert (report.workers, report.rescued, report.dead_lettered) == (1, 0, 1)
    assert [(one.job.job_id, one.status) for one in report.ended] == [(job_id, "dlq")]
    stored = row(job_id)
    assert (stored.status, stored.attempts, stored.deaths) == ("dlq", 1, 1)
    assert (stored.ready, stored.waiting, stored.live_key) == (False, False, None)
    assert stored.completed_at is not None
    (letter,) = dead_letters()
    assert (letter.original_job_id, letter.reason) == (job_id, "stale")
    assert letter.error == "Job timed out (stale claim)"
    assert counted("dlq") == 1


@pytest.mark.req("D-01", "D-03")
def test_those_who_died_with_a_worker_are_one_failure_for_each_type_and_reason(add):
    lost = []
    for job_type, deaths in (
        ("test.work", 0),
        ("test.work", 0),
        ("test.other", 0),
        ("test.work", 2),
    ):
        lost.append(add(job_type, max_attempts=1))
        change(lost[-1], deaths=deaths)
        take_started(new_worker())
    after_the_lease()
    by_job = {one.original_job_id: one for one in dead_letters()}
    first, second, other, poison = (by_job[job_id] for job_id in lost)
    assert (first.reason, poison.reason) == ("stale", "poison")
    assert first.fingerprint == second.fingerprint
    assert len({first.fingerprint, other.fingerprint, poison.fingerprint, ""}) == 4


@pytest.mark.req("J-12", "J-14")
def test_an_exhausted_job_whose_type_opted_out_fails(add):
    job_id = add("test.shrug", max_attempts=1)
    take_started(new_worker())
    after_the_lease()
    assert row(job_id).status == "failed"
    assert dead_letters() == []


@pytest.mark.req("J-14")
def test_the_last_attempt_of_a_job_that_had_not_started_is_not_its_last(add):
    job_id = add(max_attempts=1)
    take_one(new_worker())
    after_the_lease()
    assert (row(job_id).status, dead_letters()) == ("pending", [])


@pytest.mark.req("J-14", "J-16")
@pytest.mark.parametrize("started", [True, False])
def test_a_job_somebody_canceled_ends_canceled(add, started):
    job_id = add(idempotency_key="key")
    worker_id = new_worker()
    take_started(worker_id) if started else take_one(worker_id)
    change(job_id, cancel_requested_at=datetime.now(UTC))
    after_the_lease()
    stored = row(job_id)
    assert (stored.status, stored.ready, stored.live_key) == ("canceled", False, None)
    assert stored.completed_at is not None


@pytest.mark.req("J-04", "J-14")
def test_a_job_of_a_type_this_code_does_not_know_is_rescued_too(add, job_types):
    job_id = add()
    take_started(new_worker())
    del job_types["test.work"]
    assert after_the_lease().rescued == 1
    assert row(job_id).status == "pending"


@pytest.mark.req("J-14", "J-20")
def test_a_dead_workers_lock_is_freed(firm, add):
    job_id = add("test.locked", "key")
    take_started(new_worker())
    assert len(locks()) == 1
    assert after_the_lease().released_capacity.keys == {(firm.pk, "key")}
    assert locks() == []
    assert (row(job_id).ready, row(job_id).waiting) == (False, True)
    with later(200):
        assert sweep() == 1
        assert take_one().job_id == job_id


@pytest.mark.req("J-09", "J-14")
def test_a_worker_that_comes_back_after_its_death_can_change_nothing(add):
    job_id = add()
    worker_id = new_worker()
    held = take_started(worker_id)
    after_the_lease()
    assert not heartbeat(worker_id, 1)
    assert not note_running(worker_id, job_id.bytes)
    assert finish(held, Completed({})).stale == [held]
    assert row(job_id).status == "pending"


@pytest.mark.req("J-14")
def test_a_worker_is_refused_from_the_moment_it_is_marked_dead(add):
    worker_id = new_worker()
    Worker.objects.filter(pk=worker_id).update(dead_at=datetime.now(UTC))
    assert not heartbeat(worker_id, 1)
    assert not note_running(worker_id, uuid4().bytes)


@pytest.mark.req("J-14")
def test_an_outcome_that_came_in_time_is_not_undone(add):
    job_id = add()
    held = take_started(new_worker())
    finish(held, Completed({}))
    assert after_the_lease() == RescueReport(workers=1)
    assert row(job_id).status == "completed"
    assert attempts() == []


@pytest.mark.req("J-14")
def test_a_job_that_another_worker_has_by_now_is_left_alone(add):
    job_id = add()
    first = take_started(new_worker())
    finish(first, Retry(0, FAILURE))
    with later(lease_seconds() + 1):
        second_worker = new_worker()
        second = take_one(second_worker)
        assert rescue(Random(1)) == RescueReport(workers=1)
    stored = row(job_id)
    assert (stored.status, stored.lease_token) == ("claimed", second.lease_token)
    assert workers() == [second_worker]


@pytest.mark.req("J-14")
def test_more_jobs_than_a_batch_are_all_rescued(monkeypatch, add):
    monkeypatch.setattr(release_module, "BATCH", 3)
    ids = [add() for _ in range(8)]
    take(8, worker_id=new_worker())
    assert after_the_lease() == RescueReport(workers=1, rescued=8)
    assert {row(job_id).status for job_id in ids} == {"pending"}


@pytest.mark.req("J-14")
def test_rescuing_again_finds_nothing(add):
    add()
    take_started(new_worker())
    after_the_lease()
    assert after_the_lease() == RescueReport()
    assert len(attempts()) == 1


@pytest.mark.req("J-14")
@pytest.mark.skipif(connection.vendor != "postgresql", reason="a file has no restart")
@pytest.mark.parametrize(("since_seconds", "dead"), [(10**10, 0), (0, 1)])
def test_a_database_that_was_just_started_declares_nobody_dead(
    monkeypatch, add, since_seconds, dead
):
    add()
    take_started(new_worker())
    monkeypatch.setattr(type(dialects.current()), "up_longer_than_sql", SETTLED)
    monkeypatch.setattr(module, "lease_seconds", lambda: since_seconds)
    assert after_the_lease().workers == dead


@pytest.mark.req("J-14")
@pytest.mark.parametrize(("seen_running", "paid"), [(True, 1), (False, 0)])
def test_jobs_of_a_worker_without_a_row_are_found_after_a_lease(add, seen_running, paid):
    job_id = add()
    worker_id = new_worker()
    claimed = take_started(worker_id)
    if seen_running:
        mark_processing([claimed])
    deregister(worker_id)
    assert rescue_orphans(Random(1)) == RescueReport()
    with later(lease_seconds() + 1):
        assert rescue(Random(1)) == RescueReport()
        assert rescue_orphans(Random(1)) == RescueReport(rescued=1)
    stored = row(job_id)
    assert (stored.status, stored.attempts, stored.deaths) == (Status.PENDING, paid, paid)


@pytest.mark.req("J-14")
def test_orphans_are_not_confused_with_jobs_of_living_workers(add):
    job_id = add()
    worker_id = new_worker()
    take_started(worker_id)
    with later(lease_seconds() + 1):
        assert rescue_orphans(Random(1)) == RescueReport()
    assert row(job_id).status == "claimed"


@pytest.mark.req("J-09", "J-14")
def test_an_outcome_that_came_between_the_look_and_the_write_stands(add):
    job_id = add("test.jittered")
    held = take_started(new_worker())

    class Nap(Random):
        """Finishes the job when the jitter is drawn, between reading the job and writing to it."""

        def uniform(self, a: float, b: float) -> float:
            finish(held, Completed({}))
            return a

    with later(lease_seconds() + 1):
        assert rescue(Nap()) == RescueReport(workers=1)
    assert row(job_id).status == "completed"
    assert attempts() == dead_letters() == []
