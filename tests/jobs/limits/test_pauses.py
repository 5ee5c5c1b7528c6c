"""Pauses, and firms that are not active: none of their jobs start, and all of them go on later."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs.engine.admission import sweep
from jobs.engine.clock import database_now
from jobs.engine.demotion import demote
from jobs.engine.outcomes import Released, Retry, Snoozed
from jobs.errors import LimitInvalid, ReasonMissing, UnknownJob, WrongState
from jobs.models import Pause
from jobs.queue import pause, resume, retry
from tenants.errors import TenantMismatch
from tenants.models import AuditEntry, Firm
from tenants.scope import all_firms, firm_scope
from tests.factories.tenants import UserFactory
from tests.queue_kit import FAILURE, change, finish, later, locks, row, rows, take, take_one

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-23")]


def taken() -> set[object]:
    """Sweep and claim; return the ids of the jobs."""
    sweep()
    return {one.job_id for one in take()}


@pytest.mark.parametrize(
    ("what", "stopped"),
    [
        ({}, {"mine", "my export", "theirs"}),
        ({"firm": True}, {"mine", "my export"}),
        ({"category": "export"}, {"my export"}),
        ({"job_type": "test.work"}, {"mine", "theirs"}),
        ({"job_type": "test.work", "firm": True}, {"mine"}),
        ({"job_type": "test.work", "category": "sync"}, {"mine", "theirs"}),
    ],
    ids=["everything", "firm", "category", "type", "type of firm", "type in its category"],
)
@pytest.mark.parametrize("before", [True, False], ids=["stored before", "stored after"])
def test_a_pause_stops_what_it_means_and_nothing_else(firm, other_firm, add, what, stopped, before):
    def store():
        return {
            "mine": add(),
            "my export": add("test.other"),
            "theirs": add(firm=other_firm),
        }

    what = {**what, **({"firm": firm} if "firm" in what else {})}
    ids = store() if before else {}
    paused = pause(reason="the provider is down", **what)
    ids = ids or store()
    running = {ids[name] for name in ids if name not in stopped}

    assert taken() == running
    demote()
    assert {job_id for name, job_id in ids.items() if row(job_id).waiting} == {
        ids[name] for name in stopped
    }
    assert taken() == set()
    assert all(row(ids[name]).attempts == 0 for name in stopped)

    resume(paused)
    assert taken() == {ids[name] for name in stopped}


@pytest.mark.usefixtures("stopped_clock")
def test_a_pause_ends_by_itself(firm, add):
    pause(firm=firm, reason="lunch", until=database_now() + timedelta(seconds=60))
    job_id = add()
    with later(59):
        assert taken() == set()
    with later(61):
        assert taken() == {job_id}


@pytest.mark.parametrize(
    "outcome", [Retry(0.0, FAILURE), Snoozed(None, 0.0), Released("because", 0.0)]
)
def test_a_running_job_of_a_paused_firm_goes_round_to_wait(firm, add, outcome):
    job_id = add()
    held = take_one()
    paused = pause(firm=firm, reason="stop")
    finish(held, outcome)
    assert (row(job_id).status, row(job_id).ready, row(job_id).waiting) == ("pending", False, True)
    resume(paused)
    with later(1):
        assert taken() == {job_id}


def test_a_retried_job_of_a_paused_type_waits(add):
    job_id = add()
    change(job_id, status="failed", ready=False)
    pause(job_type="test.work", reason="stop")
    retry(job_id)
    assert row(job_id).waiting


@pytest.mark.req("J-20")
def test_a_demoted_job_gives_its_slot_to_one_that_may_run(add):
    paused_one = add("test.locked", "key")
    other = add("test.work", lock_key="key")
    assert [lock.holder_id for lock in locks()] == [f"job:{paused_one}"]
    paused = pause(job_type="test.locked", reason="stop")
    demote()
    assert taken() == {other}
    resume(paused)
    assert taken() == set()
    assert row(paused_one).waiting


@pytest.mark.req("T-04")
def test_deactivating_a_firm_holds_back_its_jobs_and_reactivating_resumes_them(
    firm, other_firm, add
):
    before, theirs = add(), add(firm=other_firm)
    Firm.objects.filter(pk=firm.pk).update(active=False)
    after = add()
    assert taken() == {theirs}
    demote()
    assert row(before).waiting
    assert row(after).waiting
    Firm.objects.filter(pk=firm.pk).update(active=True)
    assert taken() == {before, after}


def test_the_same_is_not_paused_twice_unless_the_first_time_is_over(firm):
    pause(firm=firm, reason="first", until=database_now() + timedelta(seconds=60))
    with pytest.raises(WrongState):
        pause(firm=firm, reason="second")
    assert [one.reason for one in rows(Pause)] == ["first"]
    with later(61):
        pause(firm=firm, reason="third")
    assert [one.reason for one in rows(Pause)] == ["third"]


def test_a_pause_that_would_be_over_at_once_is_refused(firm):
    with pytest.raises(LimitInvalid, match="until"):
        pause(firm=firm, reason="late", until=database_now())


def test_who_paused_and_resumed_what_is_in_the_log(firm, system_firm, django_user_model):
    ada = UserFactory(username="ada")
    resume(pause(firm=firm, category="sync", reason="why", by=ada), reason="done", by=ada)
    pause(reason="all stop")
    entries = [(one.firm_id, one.actor_name, one.act, one.reason) for one in rows(AuditEntry)]
    assert entries == [
        (firm.pk, "ada", "pause.set", "why"),
        (firm.pk, "ada", "pause.lift", "done"),
        (system_firm.pk, "service", "pause.set", "all stop"),
    ]


def test_a_category_that_the_type_is_not_of_would_hold_nothing(firm):
    with pytest.raises(LimitInvalid, match="belongs to the category sync") as refusal:
        pause(firm=firm, job_type="test.work", category="export", reason="stop")
    assert [(one.field, one.code) for one in refusal.value.faults] == [("category", "conflict")]
    assert rows(Pause) == []


def test_what_makes_no_sense_is_refused(firm):
    with pytest.raises(LimitInvalid, match=r"did you mean test\.work") as refusal:
        pause(job_type="test.wrok", category="exprot", reason="x")
    assert [fault["field"] for fault in refusal.value.errors] == ["category", "job_type"]
    with pytest.raises(ReasonMissing):
        pause(firm=firm, reason=" ")
    with pytest.raises(UnknownJob):
        resume("no id")
    assert rows(Pause) == []


@pytest.mark.req("T-02")
def test_inside_a_firms_scope_only_that_firm_is_paused_and_resumed(firm, other_firm):
    theirs, all_of_them = pause(firm=other_firm, reason="x"), pause(reason="x")
    with firm_scope(firm):
        mine = pause(firm=firm, reason="x")
        for out_of_sight, advice in ((None, "give firm="), (other_firm, "not in scope")):
            with pytest.raises(TenantMismatch, match=advice):
                pause(firm=out_of_sight, reason="x")
        for one in (theirs, all_of_them):
            with pytest.raises(UnknownJob):
                resume(one)
        resume(mine)
    with all_firms("test"):
        resume(theirs)
        resume(all_of_them)
    assert rows(Pause) == []
