"""Bulk runs: their members, chunks, canary, rate, stop, firms and audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Any

import pytest

from jobs.engine.clock import stopped_at
from jobs.engine.prune import prune
from jobs.errors import BulkInvalid, Fatal, LeaseLost, ReasonMissing, UnknownJob, WrongState
from jobs.models import BulkMember, BulkRun, DeadLetterQueue
from jobs.operations import bulk, bulk_step
from jobs.operations.bulk import BulkSpec, Pace
from jobs.operations.bulk_chunk import Outcomes
from jobs.operations.bulk_step import Step, do_step
from jobs.operations.deletion import delete_firm
from jobs.queries.bulk import Selection, details_of_run
from jobs.queue import cancel, discard, retry
from jobs.registry import JobPayload, job
from jobs.states import BulkOperation, BulkState, Status
from jobs.testing import drain, run_job
from tenants.audit import Actor
from tenants.errors import TenantMismatch
from tenants.models import AuditEntry, Firm
from tenants.scope import all_firms, firm_scope
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.queue_kit import counted, later, row, rows

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("D-03")]

BROKEN = "0123456789abcdef"


def letters(firm: Firm, count: int, fingerprint: str = BROKEN, **job: Any) -> list[Any]:
    """Return open dead letters of one failure, oldest first."""
    return [
        DeadLetterQueueFactory(
            original_job=JobQueueFactory(firm=firm, status="dlq", **job), fingerprint=fingerprint
        )
        for _ in range(count)
    ]


def start(operation: str = "reprocess", firm: Firm | None = None, **options: Any) -> BulkRun:
    """Start a bulk run on the rows that `ids` or `filters` select."""
    ids = options.pop("ids", None)
    filters = options.pop("filters", {})
    pace = {name: options.pop(name) for name in Pace.__annotations__ if name in options}
    by = options.pop("by", None)
    spec = BulkSpec(
        operation=BulkOperation(operation),
        selection=Selection(ids=ids, filters=None if ids is not None else filters),
        firm=firm,
        pace=Pace(**pace),
        **options,
    )
    return bulk.start(spec, by=by)


def step_of(run: BulkRun, at: datetime | None = None) -> Step:
    """Do the next step of the run as its job does, now or with the clock stopped at this time."""
    with stopped_at(at) if at else nullcontext(), all_firms("test"):
        return do_step(run.pk, run.firm, run.job_id, row(run.job_id).lease_token)


def now(run: BulkRun) -> BulkRun:
    with all_firms("test"):
        found: BulkRun = BulkRun.objects.get(pk=run.pk)
        return found


def entries(run: BulkRun) -> list[AuditEntry]:
    with all_firms("test"):
        return list(AuditEntry.objects.filter(correlation_id=run.correlation_id).order_by("pk"))


def test_a_group_is_reprocessed_by_a_durable_job(firm: Firm) -> None:
    broken, other = letters(firm, 450), letters(firm, 2, "other")
    with all_firms("test"):
        run = start(filters={"fingerprint": BROKEN}, firm=firm, reason="mended")
    assert (run.total, run.state) == (450, BulkState.RUNNING)
    assert row(run.job_id).status == Status.PENDING
    assert row(run.job_id).priority == 3
    drain()
    assert (now(run).state, now(run).done, now(run).refused) == (BulkState.COMPLETED, 450, 0)
    assert {row(letter.original_job_id).status for letter in broken} == {"completed"}
    assert {row(letter.original_job_id).series for letter in broken} == {2}
    assert {row(letter.original_job_id).status for letter in other} == {"dlq"}
    resolutions = Counter(letter.resolution for letter in rows(DeadLetterQueue))
    assert resolutions == {"reprocessed": 450, "": 2}
    assert row(run.job_id).result == {"state": "completed", "done": 450, "refused": 0}


@pytest.mark.req("T-05")
def test_the_audit_log_has_one_batch_with_totals_and_every_letter_linked(firm: Firm) -> None:
    letters(firm, 3)
    with all_firms("test"):
        run = start("discard", firm=firm, reason="obsolete")
    drain()
    log = entries(run)
    assert [entry.act for entry in log] == ["bulk.start", *["dead_letter.discard"] * 3, "bulk.end"]
    assert {entry.target_id for entry in (log[0], log[-1])} == {str(run.pk)}
    assert {entry.after["bulk_run"] for entry in log} == {str(run.pk)}
    assert {entry.reason for entry in log} == {"obsolete"}
    assert (log[0].after["total"], log[-1].after["done"]) == (3, 3)
    assert counted("discarded") == 3


def test_what_arrives_later_is_not_a_member(firm: Firm) -> None:
    letters(firm, 2)
    with all_firms("test"):
        run = start(firm=firm)
    (late,) = letters(firm, 1)
    drain()
    assert now(run).done == 2
    assert row(late.original_job_id).status == Status.DLQ


def test_what_was_decided_meanwhile_is_refused_and_said_so(firm: Firm) -> None:
    first, _ = letters(firm, 2)
    with all_firms("test"):
        run = start(firm=firm)
    discard(first.pk, "mine")
    drain()
    assert (now(run).done, now(run).refused) == (1, 1)
    with all_firms("test"):
        assert details_of_run(run).refusals == [("it has already been decided", 1)]
    assert row(first.original_job_id).status == Status.FAILED


def test_a_held_idempotency_key_refuses_one_member_and_no_other(firm: Firm) -> None:
    JobQueueFactory(firm=firm, job_type="noop", idempotency_key="a", live_key="a", waiting=True)
    letters(firm, 1, idempotency_key="a")
    # Two jobs died one after the other with the same key; only the older one can be restarted.
    twins = letters(firm, 2, idempotency_key="b")
    letters(firm, 1)
    with all_firms("test"):
        run = start(firm=firm)
        step_of(run)
        assert (now(run).done, now(run).refused) == (2, 2)
        notes = [note for note, _ in details_of_run(run).refusals]
    assert all("same idempotency key" in note for note in notes)
    assert [row(twin.original_job_id).status for twin in twins] == ["pending", "dlq"]


def doomed(firm: Firm, count: int) -> list[Any]:
    """Return dead letters of jobs that fail each time they run."""

    @job("test.doomed", category="sync", payload=JobPayload)
    def fail(payload: JobPayload, ctx: object) -> None:
        raise Fatal("never")

    return letters(firm, count, job_type="test.doomed", category="sync")


def test_a_canary_that_fails_again_stops_the_run(firm: Firm, job_types: object) -> None:
    doomed(firm, 12)
    with all_firms("test"):
        run = start(firm=firm, canary_size=5)
    with later(0):
        drain()
    assert (now(run).state, now(run).done) == (BulkState.RUNNING, 5)
    with later(2):
        drain()
    assert (now(run).state, now(run).done) == (BulkState.CANARY_FAILED, 5)
    assert sum(one.resolution == "reprocessed" for one in rows(DeadLetterQueue)) == 5


def test_a_canary_within_the_bound_lets_the_rest_follow(firm: Firm, job_types: object) -> None:
    doomed(firm, 1), letters(firm, 7)
    with all_firms("test"):
        run = start(firm=firm, canary_size=5)
        step = step_of(run)
        assert (step.is_over, now(run).done) == (False, 5)
        # The canary's jobs have not run yet, and the other members wait for that.
        step = step_of(run)
        assert (step.wait_seconds, now(run).done) == (1.0, 5)
    drain()
    assert (now(run).state, now(run).done) == (BulkState.COMPLETED, 8)


@pytest.mark.parametrize("size", [3, 4, 1000])
def test_a_canary_of_all_is_refused_and_nothing_is_started(firm: Firm, size: int) -> None:
    letters(firm, 3), letters(firm, 2, "other")
    with all_firms("test"):
        with pytest.raises(BulkInvalid) as refused:
            start(firm=firm, canary_size=size, filters={"fingerprint": BROKEN})
        assert AuditEntry.objects.count() == 0
    assert refused.value.errors == [
        {
            "field": "canary",
            "code": "out_of_range",
            "message": "must be less than the 3 rows of the run",
        }
    ]
    assert (rows(BulkRun), rows(BulkMember)) == ([], [])
    assert {letter.resolution for letter in rows(DeadLetterQueue)} == {""}


def test_a_canary_is_compared_with_the_members_that_are_fixed_at_the_start(firm: Firm) -> None:
    first, *_ = letters(firm, 3)
    spec = BulkSpec(
        operation=BulkOperation.REPROCESS,
        selection=Selection(filters={}),
        firm=firm,
        pace=Pace(canary_size=2),
    )
    with all_firms("test"):
        assert bulk.preview(spec).count == 3
        # One member is decided between the count of the members and the start.
        discard(first.pk, "mine")
        with pytest.raises(BulkInvalid, match="canary: must be less than the 2 rows of the run"):
            bulk.start(spec)
        assert bulk.preview(spec).count == 2
        letters(firm, 1)
        assert bulk.start(spec).total == 3


@pytest.mark.parametrize(("others", "tried"), [(12, 5), (2, 2)])
def test_refused_members_of_a_canary_give_their_places_to_the_next(
    firm: Firm, job_types: object, others: int, tried: int
) -> None:
    decided = letters(firm, 5)
    doomed(firm, others)
    with all_firms("test"):
        run = start(firm=firm, canary_size=5)
    for letter in decided:
        discard(letter.pk, "mine")
    drain()
    with later(2):
        drain()
    ended = now(run)
    assert (ended.state, ended.done, ended.refused) == (BulkState.CANARY_FAILED, tried, 5)


def test_the_longer_a_canary_is_out_the_longer_its_run_waits(firm: Firm) -> None:
    letters(firm, 7)
    with later(0) as begun, all_firms("test"):
        run = start(firm=firm, canary_size=5)

    def wait(after: float) -> float:
        return step_of(run, begun + timedelta(seconds=after)).wait_seconds

    assert wait(0) == 0
    assert [wait(after) for after in (0, 9, 50, 100, 5_000)] == [1.0, 1.0, 5.0, 10.0, 10.0]


def test_a_run_whose_members_are_locked_waits_before_it_tries_again(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters(firm, 2)
    with all_firms("test"):
        run = start(firm=firm)
        monkeypatch.setattr(bulk_step, "do_chunk", lambda *_: {})
        step = step_of(run)
    assert (step.is_over, step.wait_seconds, now(run).handled) == (False, 1.0, 0)


@pytest.mark.parametrize(
    "pace", [{"rate_per_second": 0.4}, {"canary_size": 1}], ids=["a slow rate", "a canary"]
)
def test_a_locked_member_keeps_no_other_waiting(
    firm: Firm, monkeypatch: pytest.MonkeyPatch, pace: dict[str, Any]
) -> None:
    locked, free, *_ = letters(firm, 3)
    do_chunk = bulk_step.do_chunk

    def do_unlocked(run: BulkRun, members: Sequence[BulkMember], actor: Actor) -> Outcomes:
        others = [member for member in members if member.target_id != locked.pk]
        return do_chunk(run, others, actor) if others else {}

    monkeypatch.setattr(bulk_step, "do_chunk", do_unlocked)
    with all_firms("test"):
        run = start(firm=firm, **pace)
    step_of(run)
    assert now(run).done == 1
    assert row(free.original_job_id).status == "pending"
    assert row(locked.original_job_id).status == "dlq"


def test_a_run_waits_until_its_rate_allows_a_whole_chunk(firm: Firm) -> None:
    letters(firm, 50)
    with later(0) as begun, all_firms("test"):
        run = start(firm=firm, rate_per_second=10)

    def wait(after: float) -> float:
        return step_of(run, begun + timedelta(seconds=after)).wait_seconds

    # A chunk is what the rate allows in two seconds, here 20 members; the last one has 10.
    assert wait(0) == 0
    assert wait(0.5) == pytest.approx(1.5, abs=0.01)
    assert wait(2) == 0
    assert wait(2) == pytest.approx(1.0, abs=0.01)
    assert wait(3) == 0
    assert now(run).handled == 50


def test_a_rate_bounds_what_is_handled_in_a_time(firm: Firm) -> None:
    letters(firm, 400)
    with later(0) as begun, all_firms("test"):
        run = start(firm=firm, rate_per_second=10)

    def step(after: float) -> Step:
        return step_of(run, begun + timedelta(seconds=after))

    assert step(0).wait_seconds == 0
    assert now(run).done == 20
    assert 1 < step(0.5).wait_seconds <= 2
    assert now(run).done == 20
    step(3)
    assert 50 <= (before := now(run).done) < 80
    # A worker that is late catches up on ten seconds at most.
    step(3600)
    assert now(run).done - before == 100


def test_a_stopped_run_handles_nothing_more(firm: Firm) -> None:
    letters(firm, 250)
    with all_firms("test"):
        run = start(firm=firm)
        step_of(run)
    # Who knows the id needs no scope.
    stopped = bulk.stop(run.pk, reason="wrong group")
    assert (stopped.state, stopped.done) == (BulkState.STOPPED, 200)
    drain()
    assert now(run).done == 200
    assert row(run.job_id).status == Status.COMPLETED
    assert [entry.reason for entry in entries(run) if entry.act == "bulk.stop"] == ["wrong group"]
    with all_firms("test"), pytest.raises(WrongState):
        bulk.stop(run.pk)


def test_a_retry_leaves_what_was_decided_of_earlier_failures(firm: Firm) -> None:
    (letter,) = letters(firm, 1)
    with all_firms("test"):
        discard(letter.pk, "no use")
        run = start("retry", firm=firm, ids=[letter.original_job_id])
    drain()
    assert (now(run).done, row(letter.original_job_id).status) == (1, "completed")
    assert rows(DeadLetterQueue)[0].resolution == "discarded"


def test_a_canceled_job_leaves_its_run_and_a_retry_goes_on(firm: Firm) -> None:
    letters(firm, 3)
    with all_firms("test"):
        run = start(firm=firm)
    cancel(run.job_id)
    drain()
    assert (now(run).state, now(run).done) == (BulkState.RUNNING, 0)
    retry(run.job_id)
    drain()
    assert (now(run).state, now(run).done) == (BulkState.COMPLETED, 3)


@pytest.mark.req("J-09")
def test_a_worker_that_lost_the_job_does_nothing(firm: Firm) -> None:
    letters(firm, 3)
    with all_firms("test"):
        run = start(firm=firm)
    with pytest.raises(LeaseLost):
        do_step(run.pk, firm, run.job_id, 99)
    assert now(run).done == 0


@pytest.mark.req("T-03")
def test_a_firms_run_touches_no_other_firm(firm: Firm, other_firm: Firm) -> None:
    mine, theirs = letters(firm, 2), letters(other_firm, 2)
    with firm_scope(firm):
        run = start(ids=[letter.pk for letter in [*mine, *theirs]], firm=firm)
        assert run.total == 2
        with pytest.raises(TenantMismatch):
            start(firm=None)
        with pytest.raises(TenantMismatch):
            start(firm=other_firm)
    with firm_scope(other_firm), pytest.raises(UnknownJob):
        bulk.stop(run.pk)
    drain()
    assert {row(one.original_job_id).status for one in theirs} == {"dlq"}
    assert {row(one.original_job_id).status for one in mine} == {"completed"}


@pytest.mark.req("T-03", "T-05")
def test_a_run_on_every_firm_is_the_system_firms_and_logs_in_each(
    firm: Firm, other_firm: Firm
) -> None:
    letters(firm, 2), letters(other_firm, 1)
    with all_firms("test"):
        run = start("discard", reason="obsolete")
        system = Firm.objects.system()
    assert (run.firm_id, run.total) == (system.pk, 3)
    drain()
    by_firm = Counter((entry.act, entry.firm_id) for entry in entries(run))
    assert by_firm == {
        ("bulk.start", system.pk): 1,
        ("bulk.end", system.pk): 1,
        ("dead_letter.discard", firm.pk): 2,
        ("dead_letter.discard", other_firm.pk): 1,
    }


@pytest.mark.django_db(transaction=True)
def test_a_run_on_every_firm_ends_though_one_of_them_is_deleted(
    firm: Firm, other_firm: Firm
) -> None:
    letters(firm, 2), letters(other_firm, 1)
    with all_firms("test"):
        run = start("discard", reason="obsolete")
        system = Firm.objects.system()
    assert run_job(delete_firm(other_firm, "the contract ended")).status == "completed"
    steps = [do_step(run.pk, system, run.job_id, 0) for _ in range(2)]
    assert [step.is_over for step in steps] == [False, True]
    assert (now(run).state, now(run).done) == (BulkState.COMPLETED, 2)


@pytest.mark.req("J-16", "J-17", "O-08")
def test_jobs_are_retried_canceled_and_given_a_priority(firm: Firm) -> None:
    failed = [JobQueueFactory(firm=firm, status="failed") for _ in range(2)]
    (dead,) = letters(firm, 1)
    pending = [JobQueueFactory(firm=firm, job_type="later") for _ in range(2)]
    running = JobQueueFactory(firm=firm, status="processing", job_type="later")
    with all_firms("test"):
        hurry = start("set_priority", firm=firm, filters={"job_type": "later"}, priority=0)
        stop = start("cancel", firm=firm, filters={"job_type": "later"}, reason="not wanted")
        again = start("retry", firm=firm, ids=[one.pk for one in (*failed, dead.original_job)])
        for run in (hurry, stop, again):
            while not do_step(run.pk, firm, run.job_id, 0).is_over:
                pass
    assert (now(hurry).done, now(stop).done, now(again).done) == (2, 3, 3)
    assert {row(one.pk).status for one in pending} == {"canceled"}
    assert {row(one.pk).priority for one in pending} == {0}
    assert row(running.pk).cancel_requested_at is not None
    assert {row(one.pk).series for one in failed} == {2}
    (letter,) = rows(DeadLetterQueue)
    assert letter.resolution == "reprocessed"
    assert (counted("canceled"), counted("failed_restarted")) == (2, 2)
    priorities = [
        (entry.before["priority"], entry.after["priority"])
        for entry in entries(hurry)
        if entry.act == "job.set_priority"
    ]
    assert priorities == [(2, 0), (2, 0)]


@pytest.mark.parametrize(
    ("operation", "options", "fields"),
    [
        ("discard", {"canary_size": 5, "reason": "x"}, ["canary"]),
        ("reprocess", {"canary_size": -1}, ["canary.size"]),
        ("reprocess", {"canary_max_failure_rate": 1.0}, ["canary.max_failure_rate"]),
        ("reprocess", {"rate_per_second": 0}, ["rate_per_second"]),
        ("reprocess", {"rate_per_second": float("nan")}, ["rate_per_second"]),
        ("reprocess", {"priority": 1}, ["priority"]),
        ("set_priority", {}, ["priority"]),
        ("set_priority", {"priority": 7}, ["priority"]),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_by_field(
    firm: Firm, operation: str, options: dict[str, Any], fields: list[str]
) -> None:
    letters(firm, 1)
    with all_firms("test"), pytest.raises(BulkInvalid) as refused:
        start(operation, firm=firm, **options)
    assert [fault.field for fault in refused.value.faults] == fields
    assert rows(BulkRun) == []


def test_a_discard_needs_a_reason_and_nothing_chosen_is_no_run(firm: Firm) -> None:
    with all_firms("test"):
        for nothing in ({}, {"ids": []}, {"filters": {"job_type": ""}}):
            with pytest.raises(WrongState, match="the selection has no row"):
                start(firm=firm, **nothing)
        letters(firm, 1)
        with pytest.raises(ReasonMissing):
            start("discard", firm=firm, reason=" ")
    assert (rows(BulkRun), rows(BulkMember)) == ([], [])


@pytest.mark.req("J-22")
def test_runs_that_ended_long_ago_are_purged_with_their_members(
    firm: Firm, other_firm: Firm
) -> None:
    letters(firm, 1), letters(other_firm, 1)
    with all_firms("test"):
        run = start("discard", reason="obsolete")
        open_one = start("reprocess")
        system = Firm.objects.system()
    drain()
    letters(firm, 1)
    assert (now(run).done, now(open_one).refused) == (2, 2)
    with later(8 * 86_400):
        with all_firms("test"):
            waiting = start(firm=firm)
        assert prune(system).bulk_runs == 2
        assert prune(firm).bulk_runs == 0
    assert [one.pk for one in rows(BulkRun)] == [waiting.pk]
    assert [one.run_id for one in rows(BulkMember)] == [waiting.pk]
