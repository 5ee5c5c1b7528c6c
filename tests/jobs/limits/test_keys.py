"""Limit keys: what holds back one mailbox holds back no other of the same firm and type."""

from __future__ import annotations

import pytest

from jobs.engine.admission import sweep
from jobs.engine.demotion import demote
from jobs.errors import LimitInvalid, PayloadInvalid
from jobs.models import Pause
from jobs.queries.why_waiting import WaitCode
from jobs.queue import EnqueueSpec, enqueue_many, pause, resume, why_waiting
from jobs.registry import JobPayload, job
from tests.queue_kit import row, rows, take

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-24")]


def taken() -> set[object]:
    """Sweep and claim; return the ids of the jobs."""
    sweep()
    return {one.job_id for one in take(100)}


def test_the_key_and_the_units_come_from_the_payload(add):
    stored = row(add("test.mailbox", "anna", units=7))
    assert (stored.limit_key, stored.limit_units) == ("anna", 7)
    plain = row(add())
    assert (plain.limit_key, plain.limit_units) == (None, 1)
    assert row(add("test.mailbox")).limit_key is None


def test_the_caller_may_name_another_key(firm, add):
    assert row(add("test.mailbox", "anna", limit_key="ben")).limit_key == "ben"
    specs = [EnqueueSpec("test.work", {}, limit_key=key) for key in ("one", None, "two")]
    stored = [row(result.job_id).limit_key for result in enqueue_many(specs, firm=firm)]
    assert stored == ["one", None, "two"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"limit_key": ""}, "limit_key"),
        ({"limit_key": "x" * 201}, "limit_key"),
        ({"limit_key": "x\x00"}, "limit_key"),
        ({"units": 0}, "limit_units"),
        ({"units": 2**31}, "limit_units"),
    ],
)
def test_a_bad_key_or_number_of_units_is_refused(add, options, field):
    with pytest.raises(PayloadInvalid) as refusal:
        add("test.mailbox", **options)
    assert [fault["field"] for fault in refusal.value.errors] == [field]


def test_a_type_of_less_than_one_unit_is_refused():
    with pytest.raises(ValueError, match="limit_units"):
        job("test.weightless", category="sync", payload=JobPayload, limit_units=0)(print)


@pytest.mark.req("J-23")
@pytest.mark.parametrize("before", [True, False], ids=["stored before", "stored after"])
def test_a_pause_of_a_key_stops_its_jobs_of_every_type_and_no_others(firm, other_firm, add, before):
    def store():
        return {
            "anna": add("test.mailbox", "anna"),
            "anna's other": add("test.other", limit_key="anna"),
            "ben": add("test.mailbox", "ben"),
            "no key": add("test.mailbox"),
            "another firm's": add("test.mailbox", "anna", firm=other_firm),
        }

    ids = store() if before else {}
    paused = pause(limit_key="anna", firm=firm, reason="refused credentials")
    ids = ids or store()
    assert taken() == {ids["ben"], ids["no key"], ids["another firm's"]}
    demote()
    (reason,) = [one for one in why_waiting(row(ids["anna"])) if one.code == WaitCode.PAUSED]
    assert reason.detail.startswith(f"limit key anna is paused for firm {firm.slug}")
    resume(paused)
    assert taken() == {ids["anna"], ids["anna's other"]}
    assert row(ids["anna"]).attempts == 1


@pytest.mark.req("J-23")
def test_a_pause_of_a_key_and_a_type_stops_both_together(firm, add):
    held, other = add("test.mailbox", "anna"), add("test.other", limit_key="anna")
    pause(limit_key="anna", job_type="test.mailbox", firm=firm, reason="x")
    assert taken() == {other}
    (reason,) = [one for one in why_waiting(row(held)) if one.code == WaitCode.PAUSED]
    assert "limit key anna in type test.mailbox is paused" in reason.detail


@pytest.mark.req("J-23")
def test_pauses_of_several_keys_stand_beside_each_other(firm, add):
    for key in ("anna", "ben", None):
        pause(limit_key=key, job_type="test.work", firm=firm, reason="x")
    assert sorted(one.limit_key for one in rows(Pause)) == ["", "anna", "ben"]


def test_a_pause_of_an_impossible_key_is_refused(system_firm):
    with pytest.raises(LimitInvalid) as refusal:
        pause(limit_key="x" * 201, reason="x")
    assert [fault["field"] for fault in refusal.value.errors] == ["limit_key"]


def test_a_long_backlog_of_one_key_does_not_hide_the_jobs_behind_it(firm, add):
    """The jobs have one type and no lock; only limit keys make them several waiting groups."""
    pause(limit_key="anna", firm=firm, reason="x")
    pause(limit_key="carl", firm=firm, reason="x")
    for _ in range(5):
        add("test.mailbox", "anna")
        add("test.mailbox", "carl")
    firm.running_cap = 1
    firm.save()
    last = add("test.mailbox", "ben")
    assert taken() == {last}
