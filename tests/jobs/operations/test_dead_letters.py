"""An operation that is refused halfway changes nothing, also inside a caller's transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from jobs.errors import Fatal, KeyHeld, PayloadInvalid
from jobs.models import JobQueue
from jobs.operations.bulk import BulkSpec, start
from jobs.queries.bulk import Selection
from jobs.queue import discard, enqueue, pause, reprocess
from jobs.registry import job
from jobs.states import BulkOperation, Status
from tenants.models import AuditEntry, Firm
from tenants.scope import all_firms, firm_scope
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.jobs.engine.conftest import Add, WorkPayload
from tests.queue_kit import (
    dead_letters,
    escalate_without_notice,
    row,
    rows,
    take,
    take_one,
    work_off,
)


@pytest.mark.django_db(transaction=True)
@pytest.mark.req("D-02", "T-05")
@pytest.mark.usefixtures("work_types")
def test_a_reprocess_refused_for_its_key_leaves_the_dead_letter_open(firm: Firm, add: Add) -> None:
    @job("test.doomed", category="sync", payload=WorkPayload)
    def doomed(payload: WorkPayload, ctx: object) -> None:
        raise Fatal("never")

    dead = add("test.doomed", idempotency_key="one")
    work_off()
    enqueue("test.work", {}, firm=firm, idempotency_key="one")
    (letter,) = dead_letters()

    with transaction.atomic():
        with pytest.raises(KeyHeld):
            reprocess(letter.pk)
        with firm_scope(firm):
            assert not AuditEntry.objects.exists()

    (letter,) = dead_letters()
    assert (letter.resolution, letter.reviewed_at) == ("", None)
    assert row(dead).status == Status.DLQ


@pytest.mark.django_db(transaction=True)
@pytest.mark.req("D-02")
@pytest.mark.usefixtures("work_types")
def test_a_mended_payload_needs_no_envelope(firm: Firm, add: Add) -> None:
    @job("test.doomed", category="sync", payload=WorkPayload)
    def doomed(payload: WorkPayload, ctx: object) -> None:
        if payload.name != "mended":
            raise Fatal("never")

    dead = add("test.doomed")
    work_off()
    before = row(dead).payload
    (letter,) = dead_letters()
    reprocess(letter.pk, payload={"name": "mended"})
    assert row(dead).payload == {**before, "name": "mended"}
    work_off()
    assert row(dead).status == Status.COMPLETED


class KeyedPayload(WorkPayload):
    """The type derives each key of a job from this payload."""

    number: int = 1


@pytest.fixture
def keyed_dead(work_types: None, add: Add) -> UUID:
    """Return a dead job whose type derives the keys from the payload."""

    @job(
        "test.keyed",
        category="sync",
        payload=KeyedPayload,
        lock_key=lambda p: p.name,
        limit_key=lambda p: f"box:{p.name}",
        limit_units=lambda p: p.units,
        idempotency_key=lambda p: f"keyed:{p.number}",
    )
    def keyed(payload: KeyedPayload, ctx: object) -> None:
        raise Fatal("never")

    dead = add("test.keyed", "a")
    work_off()
    return dead


@pytest.mark.django_db(transaction=True)
def test_the_keys_of_a_job_follow_its_mended_payload(keyed_dead: UUID, add: Add) -> None:
    holder = add("test.locked", "b")
    assert take_one().job_id == holder
    (letter,) = dead_letters()
    reprocess(letter.pk, payload={"name": "b", "units": 2})
    mended = row(keyed_dead)
    assert (mended.lock_key, mended.limit_key, mended.limit_units) == ("b", "box:b", 2)
    # The other job still has the lock.
    assert take() == []
    (entry,) = rows(AuditEntry)
    assert {"lock_key": "a", "limit_key": "box:a"}.items() <= entry.before.items()
    assert {"lock_key": "b", "limit_key": "box:b"}.items() <= entry.after.items()


@pytest.mark.django_db(transaction=True)
@pytest.mark.req("D-02")
def test_the_idempotency_key_follows_unless_a_live_job_holds_the_new_one(
    keyed_dead: UUID, firm: Firm
) -> None:
    (letter,) = dead_letters()
    holder = enqueue("test.keyed", {"name": "a", "number": 2}, firm=firm)
    with pytest.raises(KeyHeld, match=str(holder.job_id)):
        reprocess(letter.pk, payload={"name": "a", "number": 2})
    assert (row(keyed_dead).status, row(keyed_dead).idempotency_key) == (Status.DLQ, "keyed:1")
    reprocess(letter.pk, payload={"name": "a", "number": 3})
    assert row(keyed_dead).live_key == "keyed:3"
    assert enqueue("test.keyed", {"name": "a", "number": 3}, firm=firm).job_id == keyed_dead
    assert enqueue("test.keyed", {"name": "a", "number": 1}, firm=firm).created


@pytest.mark.django_db(transaction=True)
@pytest.mark.req("J-03")
def test_a_mended_payload_with_a_key_that_cannot_be_stored_is_refused(keyed_dead: UUID) -> None:
    (letter,) = dead_letters()
    with pytest.raises(PayloadInvalid) as refused:
        reprocess(letter.pk, payload={"name": "a" * 300, "number": 10**300})
    assert {fault["field"]: fault["code"] for fault in refused.value.errors} == {
        "lock_key": "wrong_length",
        "limit_key": "wrong_length",
        "idempotency_key": "wrong_length",
    }
    assert (row(keyed_dead).status, row(keyed_dead).lock_key) == (Status.DLQ, "a")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "key", [lambda p: f"kept:{p.number}", None], ids=["its own key", "the payload is the key"]
)
def test_a_mended_payload_that_would_change_a_kept_idempotency_key_is_refused(
    work_types: None, firm: Firm, key: Callable[[KeyedPayload], str] | None
) -> None:
    @job(
        "test.kept",
        category="sync",
        payload=KeyedPayload,
        idempotency_key=key,
        once_only=True,
    )
    def kept(payload: KeyedPayload, ctx: object) -> None:
        raise Fatal("never")

    dead = enqueue("test.kept", {"name": "a"}, firm=firm).job_id
    work_off()
    (letter,) = dead_letters()
    with pytest.raises(PayloadInvalid, match="discard this dead letter") as refused:
        reprocess(letter.pk, payload={"name": "a", "number": 2})
    assert [(fault["field"], fault["code"]) for fault in refused.value.errors] == [
        ("payload", "changes_idempotency_key")
    ]
    assert row(dead).status == Status.DLQ


@pytest.mark.django_db(transaction=True)
def test_a_payload_that_is_no_longer_read_is_mended_under_its_idempotency_key(
    keyed_dead: UUID,
) -> None:
    with all_firms("test"):
        JobQueue.objects.filter(pk=keyed_dead).update(payload={"old": True})
    (letter,) = dead_letters()
    reprocess(letter.pk, payload={"name": "b", "number": 2})
    assert (row(keyed_dead).lock_key, row(keyed_dead).live_key) == ("b", "keyed:1")


@pytest.mark.django_db(transaction=True)
@pytest.mark.req("D-02")
@pytest.mark.parametrize(
    ("priority", "code"),
    [(4, "out_of_range"), (-1, "out_of_range"), (2.0, "wrong_type"), (True, "wrong_type")],
)
def test_a_reprocess_with_an_impossible_priority_is_refused(
    firm: Firm, priority: Any, code: str
) -> None:
    letter = DeadLetterQueueFactory(original_job=JobQueueFactory(firm=firm, status=Status.DLQ))
    with pytest.raises(PayloadInvalid) as refused:
        reprocess(letter.pk, priority=priority)
    assert [(fault["field"], fault["code"]) for fault in refused.value.errors] == [
        ("priority", code)
    ]
    (letter,) = dead_letters()
    assert letter.resolution == ""


@pytest.mark.django_db(transaction=True)
@pytest.mark.req("D-02")
@pytest.mark.parametrize(("reason", "kept"), [("no use", "look at it\nno use"), ("", "look at it")])
def test_what_is_decided_after_an_escalation_keeps_its_note(
    firm: Firm, reason: str, kept: str
) -> None:
    letter = DeadLetterQueueFactory(original_job=JobQueueFactory(firm=firm, status=Status.DLQ))
    escalate_without_notice(letter.pk, "look at it")
    if reason:
        discard(letter.pk, reason)
    else:
        reprocess(letter.pk)
    (letter,) = dead_letters()
    assert letter.resolution_note == kept


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("resolution", ["reprocessed", "discarded", "escalated"])
def test_a_dead_letter_is_decided_on_without_a_scope(firm: Firm, resolution: str) -> None:
    letter = DeadLetterQueueFactory(original_job=JobQueueFactory(firm=firm, status="dlq"))
    if resolution == "reprocessed":
        letter.reprocess()
    elif resolution == "discarded":
        letter.discard("ordered twice")
    else:
        letter.escalate("who knows this order?")
    assert letter.resolution == resolution


@pytest.mark.django_db
@pytest.mark.req("T-05")
def test_a_secret_in_a_reason_is_kept_nowhere(firm: Firm) -> None:
    reason = "the key was api_key=abc123, says ada@acme.example"
    kept = "the key was [redacted], says ada@acme.example"
    letter = DeadLetterQueueFactory(original_job=JobQueueFactory(firm=firm, status="dlq"))
    DeadLetterQueueFactory(original_job=JobQueueFactory(firm=firm, status="dlq"))
    with firm_scope(firm):
        discard(letter.pk, reason)
        paused = pause(firm=firm, category="sync", reason=reason)
        chosen = Selection(filters={})
        run = start(
            BulkSpec(operation=BulkOperation.DISCARD, selection=chosen, firm=firm, reason=reason)
        )
        letter.refresh_from_db()
        assert [letter.resolution_note, paused.reason, run.reason] == [kept] * 3
        entries = AuditEntry.objects.order_by("id")
        assert [(entry.act, entry.reason) for entry in entries] == [
            ("dead_letter.discard", kept),
            ("pause.set", kept),
            ("bulk.start", kept),
        ]
