"""An operation that is refused halfway leaves nothing behind, also inside somebody else's transaction."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from jobs.errors import Fatal, KeyHeld, PayloadInvalid
from jobs.operations.bulk import BulkSpec, start
from jobs.queries.bulk import Selection
from jobs.queue import discard, enqueue, pause, reprocess
from jobs.registry import job
from jobs.states import BulkOperation, Status
from tenants.models import AuditEntry, Firm
from tenants.scope import firm_scope
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.jobs.engine.conftest import Add, WorkPayload
from tests.queue_kit import dead_letters, escalate_without_notice, row, work_off


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
