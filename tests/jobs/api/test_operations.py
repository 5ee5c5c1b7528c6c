"""Operations over REST: the answer, the row, the audit log, and what a repeated request does."""

from __future__ import annotations

from typing import Any

import pytest
from django.core import mail
from django.utils import timezone

from jobs.engine.redaction import REDACTED_VALUE
from jobs.models import ConcurrencyLock, DeadLetterQueue, JobQueue
from jobs.registry import JobPayload, job
from jobs.states import Status
from jobs.testing.run import run_job
from tenants.models import AuditEntry, Role
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory, envelope
from tests.factories.tenants import MembershipFactory, UserFactory
from tests.jobs.api.conftest import Api, FirmRows, audit_log, fields, key_for, problem
from tests.queue_kit import row, rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01")]


def only_entry() -> AuditEntry:
    (entry,) = audit_log()
    assert entry.door == "api"
    return entry


def resolution(letter: DeadLetterQueue) -> str:
    """Return the dead letter's resolution as it is stored."""
    (found,) = [row for row in rows(DeadLetterQueue) if row.pk == letter.pk]
    return str(found.resolution)


@pytest.mark.req("J-17", "T-05")
def test_retry_starts_over_and_is_written_down(operator: Api, acme: FirmRows) -> None:
    path = f"jobs/{acme.dead.pk}/retry/"
    answer = operator.post(path, {"reason": "fixed"}, **{"X-Correlation-ID": "c-42"})
    assert answer.status_code == 200
    assert answer.json()["status"] == "pending"
    assert answer.json()["attempts"] == 0
    of_letter, of_job = audit_log()
    assert (of_letter.act, of_letter.target_id) == (
        "dead_letter.reprocess",
        str(acme.dead_letter.pk),
    )
    assert of_letter.before == {"resolution": "", "series": 1}
    assert of_letter.after == {"resolution": "reprocessed", "series": 2}
    assert (of_job.act, of_job.target_id) == ("job.retry", str(acme.dead.pk))
    for entry in (of_letter, of_job):
        assert (entry.door, entry.actor_name, entry.reason, entry.correlation_id) == (
            "api",
            "operator@acme.example",
            "fixed",
            "c-42",
        )
    assert resolution(acme.dead_letter) == "reprocessed"
    assert problem(operator.post(path), 409)["code"] == "wrong_state"
    assert len(audit_log()) == 2


@pytest.mark.parametrize("status", sorted({*Status} - {Status.DLQ, Status.FAILED, Status.CANCELED}))
def test_a_job_that_is_not_over_or_succeeded_is_not_retried(
    status: str, operator: Api, acme: FirmRows
) -> None:
    job = JobQueueFactory(firm=acme.firm, status=status)
    problem(operator.post(f"jobs/{job.pk}/retry/"), 409)
    assert row(job.pk).status == status


@pytest.mark.req("J-16", "T-05")
def test_cancel_ends_a_pending_job(operator: Api, acme: FirmRows) -> None:
    path = f"jobs/{acme.waiting.pk}/cancel/"
    answer = operator.post(path, {"reason": "a mistake"})
    assert answer.status_code == 200
    assert answer.json()["status"] == "canceled"
    assert (only_entry().act, only_entry().reason) == ("job.cancel", "a mistake")
    problem(operator.post(path), 409)


@pytest.mark.req("J-17", "T-05")
def test_retry_of_what_no_letter_waits_for_is_one_act(operator: Api, acme: FirmRows) -> None:
    job = JobQueueFactory(firm=acme.firm, status="canceled")
    assert operator.post(f"jobs/{job.pk}/retry/").status_code == 200
    assert only_entry().act == "job.retry"


@pytest.mark.req("J-16", "T-05")
def test_cancel_asks_a_running_job(operator: Api, acme: FirmRows) -> None:
    job = JobQueueFactory(
        firm=acme.firm, status="processing", attempts=1, started_at=timezone.now()
    )
    path = f"jobs/{job.pk}/cancel/"
    answer = operator.post(path)
    assert answer.status_code == 202
    assert answer.json()["status"] == "processing"
    first = row(job.pk).cancel_requested_at
    assert first is not None
    changed = row(job.pk).updated_at
    assert operator.post(path, {"reason": "again"}).status_code == 202
    assert (row(job.pk).cancel_requested_at, row(job.pk).updated_at) == (first, changed)
    assert only_entry().after == {"cancel_requested": True}


@pytest.mark.req("D-02", "T-05")
@pytest.mark.parametrize("reason", ["reason", "note"])
def test_reprocess_takes_an_edited_payload(operator: Api, acme: FirmRows, reason: str) -> None:
    path = f"dlq/{acme.dead_letter.pk}/reprocess/"
    payload = {**acme.dead.payload, "correlation_id": "edited"}
    answer = operator.post(path, {"payload": payload, "priority": 0, reason: "try this"})
    assert answer.status_code == 200
    shown = answer.json()
    assert (shown["resolution"], shown["resolution_note"]) == ("reprocessed", "try this")
    assert shown["reviewed_by"] == "operator@acme.example"
    job = row(acme.dead.pk)
    assert (job.status, job.priority, job.payload) == ("pending", 0, payload)
    assert only_entry().before == {
        "resolution": "",
        "series": 1,
        "priority": 2,
        "payload": {"correlation_id": "canary-acme"},
    }
    assert only_entry().after == {
        "resolution": "reprocessed",
        "series": 2,
        "priority": 0,
        "payload": {"correlation_id": "edited"},
    }
    problem(operator.post(path), 409)


@pytest.mark.req("D-02", "T-05")
def test_a_secret_under_the_types_own_name_is_in_no_answer(
    operator: Api, admin: Api, acme: FirmRows, job_types: object
) -> None:
    class CallPayload(JobPayload):
        api_token: str
        page_token: str

    @job("test.call", category="sync", payload=CallPayload)
    def call(payload: CallPayload, ctx: object) -> None: ...

    old = {**envelope(acme.firm.pk), "api_token": "hunter2", "page_token": "p1"}
    dead = JobQueueFactory(firm=acme.firm, status="dlq", job_type="test.call", payload=old)
    letter = DeadLetterQueueFactory(original_job=dead)
    new = {**old, "api_token": "hunter3", "page_token": "p2"}
    assert operator.post(f"dlq/{letter.pk}/reprocess/", {"payload": new}).status_code == 200
    assert row(dead.pk).payload == new
    (entry,) = admin.results("audit/", {"operation": "dead_letter.reprocess"})
    masked = {"api_token": REDACTED_VALUE}
    assert entry["before"]["payload"] == {**masked, "page_token": "p1"}
    assert entry["after"]["payload"] == {**masked, "page_token": "p2"}
    assert "hunter" not in f"{only_entry().before} {only_entry().after}"
    shown = operator.get(f"jobs/{dead.pk}/").json()["payload"]
    assert shown == {**new, **masked}


def test_a_priority_as_it_was_is_no_change(operator: Api, acme: FirmRows) -> None:
    operator.post(f"dlq/{acme.dead_letter.pk}/reprocess/", {"priority": 2})
    assert only_entry().after == {"resolution": "reprocessed", "series": 2}


def test_reprocess_needs_no_body(operator: Api, acme: FirmRows) -> None:
    answer = operator.post_raw(f"dlq/{acme.dead_letter.pk}/reprocess/", b"")
    assert answer.status_code == 200
    assert row(acme.dead.pk).payload == acme.dead.payload


@pytest.mark.req("J-03", "D-02")
@pytest.mark.parametrize(
    ("change", "faults"),
    [
        ({"extra": 1}, {"extra": "unknown_field"}),
        ({"tenant_id": "x"}, {"tenant_id": "wrong_type"}),
        ({"tenant_id": 999_999}, {"tenant_id": "foreign_tenant"}),
        ({"password": "x"}, {"password": "secret_key"}),
        ({"version": "9.9"}, {"version": "unknown_version"}),
        ({"correlation_id": REDACTED_VALUE}, {"correlation_id": "masked"}),
        ({"tenant_id": [{"id": REDACTED_VALUE}]}, {"tenant_id[0].id": "masked"}),
    ],
)
def test_an_edited_payload_is_checked(
    change: dict[str, Any], faults: dict[str, str], operator: Api, acme: FirmRows
) -> None:
    body = {"payload": {**acme.dead.payload, **change}}
    answer = operator.post(f"dlq/{acme.dead_letter.pk}/reprocess/", body)
    assert fields(answer) == faults
    assert resolution(acme.dead_letter) == ""
    assert audit_log() == []


@pytest.mark.req("D-02")
def test_a_refusal_midway_leaves_nothing_behind(operator: Api, acme: FirmRows) -> None:
    key = "canary-acme:welcome"
    with all_firms("test"):
        JobQueue.objects.filter(pk=acme.waiting.pk).update(live_key=key)
        JobQueue.objects.filter(pk=acme.dead.pk).update(idempotency_key=key)
    found = problem(operator.post(f"dlq/{acme.dead_letter.pk}/reprocess/"), 409)
    assert found["code"] == "key_held"
    assert str(acme.waiting.pk) in found["detail"]
    assert resolution(acme.dead_letter) == ""
    assert audit_log() == []


@pytest.mark.req("D-02", "T-05")
def test_discard_gives_up(operator: Api, acme: FirmRows) -> None:
    path = f"dlq/{acme.dead_letter.pk}/discard/"
    answer = operator.post(path, {"reason": "withdrawn"})
    assert answer.status_code == 200
    assert answer.json()["resolution"] == "discarded"
    assert row(acme.dead.pk).status == "failed"
    assert (only_entry().act, only_entry().reason) == ("dead_letter.discard", "withdrawn")
    problem(operator.post(path, {"reason": "again"}), 409)


@pytest.mark.req("D-02", "T-05")
def test_escalate_asks_a_member(operator: Api, acme: FirmRows) -> None:
    key_for(acme.firm, Role.DEVELOPER, "grace@acme.example")
    path = f"dlq/{acme.dead_letter.pk}/escalate/"
    body = {"reason": "look", "assigned_to": "Grace@acme.example"}
    answer = operator.post(path, body)
    assert answer.status_code == 200
    shown = answer.json()
    assert (shown["resolution"], shown["assigned_to"]) == ("escalated", "grace@acme.example")
    assert only_entry().act == "dead_letter.escalate"
    with all_firms("test"):
        assert JobQueue.objects.filter(job_type="escalation_notice").count() == 1
    refused = problem(operator.post(path, body), 409)
    whom = "to grace@acme.example: reprocess or discard it"
    assert refused["detail"].endswith(f"{acme.dead_letter.pk} was escalated already, {whom}")
    assert operator.post(path.replace("escalate", "discard"), body | {}).status_code == 400
    assert operator.post(path.replace("escalate", "discard"), {"reason": "no"}).status_code == 200
    refused = problem(operator.post(path, body), 409)
    assert refused["detail"].endswith("was discarded already, by operator@acme.example")


@pytest.mark.req("D-02", "T-03")
def test_a_refusal_names_nobody_to_another_firm(
    operator: Api, acme: FirmRows, globex: FirmRows
) -> None:
    stranger = Api(key_for(globex.firm, Role.OPERATOR, "bob@globex.example"))
    key_for(acme.firm, Role.DEVELOPER, "grace@acme.example")
    path, body = f"dlq/{acme.dead_letter.pk}/escalate/", {"reason": "look"}
    assert operator.post(path, body | {"assigned_to": "grace@acme.example"}).status_code == 200
    assert "grace" in problem(operator.post(path, body), 409)["detail"]
    refused = problem(stranger.post(path, body), 404)
    assert "grace" not in str(refused)


@pytest.mark.req("D-02")
def test_an_escalation_that_tells_nobody_stands(operator: Api, acme: FirmRows) -> None:
    answer = operator.post(f"dlq/{acme.dead_letter.pk}/escalate/", {"reason": "look"})
    assert answer.status_code == 200
    assert resolution(acme.dead_letter) == "escalated"
    with all_firms("test"):
        notice = JobQueue.objects.get(job_type="escalation_notice")
    assert run_job(notice).status == Status.COMPLETED
    assert mail.outbox == []


@pytest.mark.req("T-03")
@pytest.mark.parametrize(
    "address", ["nobody@acme.example", "bob@globex.example", "off@acme.example"]
)
def test_escalate_knows_active_members_of_the_firm_alone(
    address: str, operator: Api, acme: FirmRows, globex: FirmRows
) -> None:
    key_for(globex.firm, Role.ADMIN, "bob@globex.example")
    with all_firms("test"):
        inactive = UserFactory(username="off@acme.example", is_active=False)
        MembershipFactory(firm=acme.firm, user=inactive, role=Role.ADMIN)
    body = {"reason": "look", "assigned_to": address}
    answer = operator.post(f"dlq/{acme.dead_letter.pk}/escalate/", body)
    assert fields(answer) == {"assigned_to": "not_a_member"}
    assert resolution(acme.dead_letter) == ""


@pytest.mark.req("J-21", "T-05")
def test_release_frees_a_lock(admin: Api, acme: FirmRows) -> None:
    path = f"locks/{acme.lock.pk}/release/"
    answer = admin.post(path, {"reason": "its script crashed"})
    assert answer.status_code == 200
    assert answer.json()["lock_key"] == acme.lock.lock_key
    assert rows(ConcurrencyLock) == []
    assert (only_entry().act, only_entry().reason) == ("lock.force_release", "its script crashed")
    problem(admin.post(path, {"reason": "again"}), 404)


@pytest.mark.req("J-21")
def test_the_lock_of_a_job_in_flight_stays(admin: Api, acme: FirmRows) -> None:
    with all_firms("test"):
        lock = ConcurrencyLock.objects.create(
            firm=acme.firm, lock_key="k", holder_id=f"job:{acme.waiting.pk}", fencing_token=1
        )
    problem(admin.post(f"locks/{lock.pk}/release/", {"reason": "now"}), 409)
    assert lock in rows(ConcurrencyLock)


@pytest.mark.req("D-02", "J-21")
@pytest.mark.parametrize("body", [None, {}, {"reason": ""}, {"reason": " \t"}, {"reason": None}])
@pytest.mark.parametrize("operation", ["discard", "escalate", "release"])
def test_a_reason_is_obligatory(
    operation: str, body: dict[str, Any] | None, admin: Api, acme: FirmRows
) -> None:
    where = f"locks/{acme.lock.pk}" if operation == "release" else f"dlq/{acme.dead_letter.pk}"
    assert fields(admin.post(f"{where}/{operation}/", body)).keys() == {"reason"}
    assert resolution(acme.dead_letter) == ""
    assert rows(ConcurrencyLock) == [acme.lock]
    assert audit_log() == []
