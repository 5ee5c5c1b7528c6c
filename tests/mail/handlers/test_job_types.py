"""The mail jobs run through the queue: their declarations, the translation of errors, no loss."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs import registry
from jobs.engine.admission import sweep
from jobs.engine.outcomes import Canceled, Completed, DeadLettered, Retry, Snoozed
from jobs.errors import PayloadInvalid
from jobs.models import DeadLetterQueue
from jobs.queue import enqueue
from jobs.states import Category, DeadReason
from jobs.testing import run_job
from mail.gmail.simulator.faults import LOST_ANSWER, Fault
from mail.job_handlers.base import GMAIL_RETRY
from mail.labels import LABEL_NAMES, LabelKey
from mail.models import Action, ActionType, Decision, MailAccount, Message
from mail.services.actions.actions import request_action
from mail.services.mailboxes.accounts import open_account
from mail.services.queueing import request_backfill, request_sync
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.mail.mail_kit import Mailbox, drain, jobs, letter, only, stored, without_drafts
from tests.queue_kit import change, later, work_off

pytestmark = pytest.mark.django_db(transaction=True)

TYPES = {
    "sync": Category.SYNC,
    "history.sync.gmail": Category.SYNC,
    "backfill.gmail": Category.INGESTION,
    "ingest.gmail": Category.INGESTION,
    "ingest.page.gmail": Category.INGESTION,
    "classify": Category.ORCHESTRATION,
    "classify.page": Category.ORCHESTRATION,
    "action.gmail": Category.ORCHESTRATION,
    "label.page.gmail": Category.ORCHESTRATION,
    "draft": Category.ORCHESTRATION,
    "manual_draft": Category.ORCHESTRATION,
    "rework": Category.ORCHESTRATION,
    "cleanup": Category.ORCHESTRATION,
    "unsnooze.lost.gmail": Category.ORCHESTRATION,
}


def sync_now(mailbox: Mailbox) -> None:
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account)


@pytest.mark.req("J-05", "J-10")
@pytest.mark.parametrize(("name", "category"), TYPES.items())
def test_types_are_declared_with_the_gmail_policy(name: str, category: Category) -> None:
    declared = registry.get(name)
    assert declared.category == category
    assert declared.retry == GMAIL_RETRY
    assert (declared.retry.max_attempts, declared.retry.base_delay_seconds) == (5, 5)


@pytest.mark.req("M-04", "M-06", "M-09", "M-15")
def test_a_sync_leads_from_mailbox_to_labels(mailbox: Mailbox) -> None:
    without_drafts(mailbox)
    arrived = mailbox.receive()
    sync_now(mailbox)
    outcomes = drain()
    assert [type(outcome) for outcome in outcomes] == [Completed] * 4
    finished = [(job.job_type, job.status) for job in jobs(live=False)]
    assert finished == [
        ("sync", "completed"),
        ("ingest.gmail", "completed"),
        ("classify", "completed"),
        ("action.gmail", "completed"),
    ]
    (decision,) = stored(Decision)
    label = LABEL_NAMES[LabelKey(decision.category)]
    assert label in mailbox.labels(arrived)
    assert decision.job_id == jobs("classify", live=False)[0].job_id


@pytest.mark.req("M-04")
def test_doing_it_all_again_changes_nothing(mailbox: Mailbox) -> None:
    mailbox.receive_many(3)
    sync_now(mailbox)
    drain()
    before = [(row.pk, row.status) for row in stored(Action)]
    for job_type in ("sync", "history.sync.gmail"):
        with firm_scope(mailbox.firm):
            request_sync(mailbox.account, job_type=job_type)
    with firm_scope(mailbox.firm):
        request_backfill(mailbox.account)
    outcomes = drain()
    assert len(outcomes) == 3
    assert all(isinstance(outcome, Completed) for outcome in outcomes)
    assert [(row.pk, row.status) for row in stored(Action)] == before
    assert (len(stored(Message)), len(stored(Decision))) == (3, 3)


@pytest.mark.req("J-03", "M-04")
def test_jobs_of_one_cause_share_its_correlation_id(mailbox: Mailbox) -> None:
    mailbox.receive()
    with firm_scope(mailbox.firm):
        enqueue("sync", {"account_id": mailbox.account.pk}, correlation_id="cause-1")
    drain()
    assert {job.correlation_id for job in jobs(live=False)} == {"cause-1"}
    parents = {job.job_type: job.parent_id for job in jobs(live=False)}
    assert parents["ingest.gmail"] == jobs("sync", live=False)[0].job_id


@pytest.mark.req("M-02", "J-11")
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault(status=429, retry_after=90), Snoozed),
        (Fault(status=403, reason="userRateLimitExceeded"), Snoozed),
        (Fault(status=401), Retry),
        (Fault(status=500), Retry),
        (Fault(status=503), Retry),
        (Fault(status=403, reason="insufficientPermissions"), DeadLettered),
        (Fault(status=400, reason="badRequest"), DeadLettered),
        (LOST_ANSWER, Retry),
    ],
    ids=["429", "403-limit", "401", "500", "503", "403-permission", "400", "timeout"],
)
def test_gmails_errors_become_the_queues(mailbox: Mailbox, fault: Fault, expected: type) -> None:
    sync_now(mailbox)
    mailbox.simulator.order_fault(fault, method="getProfile")
    assert isinstance(work_off(), expected)


@pytest.mark.req("M-02", "J-11")
def test_a_wait_gmail_asks_for_uses_no_attempt(mailbox: Mailbox) -> None:
    sync_now(mailbox)
    mailbox.simulator.order_fault(Fault(status=429, retry_after=90), method="getProfile")
    outcome = work_off()
    assert isinstance(outcome, Snoozed)
    assert 85 < outcome.delay_seconds <= 90
    (job,) = jobs("sync")
    assert job.attempts == 0
    assert job.scheduled_at > datetime.now(UTC) + timedelta(seconds=60)


@pytest.mark.req("M-06")
def test_a_message_that_is_gone_completes_its_job(mailbox: Mailbox) -> None:
    payload = {"account_id": mailbox.account.pk, "gmail_message_id": "18c0ffee18c0ffee"}
    job = run_job("ingest.gmail", payload, firm=mailbox.firm)
    assert job.status == "completed"
    assert job.result["skipped"] is True


@pytest.mark.req("M-06", "J-07")
def test_one_message_is_ingested_by_one_job(mailbox: Mailbox) -> None:
    payload = {"account_id": mailbox.account.pk, "gmail_message_id": "18c0ffee18c0ffee"}
    with firm_scope(mailbox.firm):
        first = enqueue("ingest.gmail", payload)
        second = enqueue("ingest.gmail", payload)
    assert (second.job_id, second.created) == (first.job_id, False)
    assert first.job.idempotency_key == f"ingest.gmail:{mailbox.account.pk}:18c0ffee18c0ffee"


def action_of(mailbox: Mailbox) -> Action:
    """Return a queued action, on a message that is not to be judged."""
    mailbox.receive(labels=("UNREAD",))
    (message,) = mailbox.store_all()
    with firm_scope(mailbox.firm):
        return request_action(message, ActionType.MARK_READ)


@pytest.mark.req("M-15")
def test_an_action_is_failed_only_when_no_attempt_is_left(mailbox: Mailbox) -> None:
    action_of(mailbox)
    mailbox.simulator.order_fault(Fault(status=500), method="messages.modify", times=2)
    assert isinstance(work_off(), Retry)
    (action,) = stored(Action)
    assert action.status == "executing"
    (job,) = jobs("action.gmail")
    change(job.job_id, attempts=job.max_attempts - 1)
    with later(3600):
        sweep()
        outcome = work_off()
    assert isinstance(outcome, DeadLettered)
    assert outcome.reason == DeadReason.EXHAUSTED
    (action,) = stored(Action)
    assert action.status == "failed"
    assert "Gmail could not be reached" in action.error


@pytest.mark.req("M-15")
def test_an_action_on_a_deleted_message_is_canceled_and_no_dead_letter(mailbox: Mailbox) -> None:
    action = action_of(mailbox)
    messages = mailbox.gmail._resources.messages
    gone = only(mailbox.messages(), pk=action.message_id).gmail_message_id
    mailbox.gmail._execute(messages.delete(userId="me", id=gone))
    outcome = work_off()
    assert isinstance(outcome, Completed)
    assert outcome.result["skipped"] is True
    (action,) = stored(Action)
    assert action.status == "canceled"


@pytest.mark.req("J-11", "M-01")
def test_the_job_of_a_mailbox_that_is_gone_goes_to_the_dead_letters(mailbox: Mailbox) -> None:
    sync_now(mailbox)
    with firm_scope(mailbox.firm):
        MailAccount.objects.all().delete()
    outcome = work_off()
    assert isinstance(outcome, DeadLettered)
    assert outcome.reason == DeadReason.FATAL
    assert "is gone" in stored(DeadLetterQueue)[0].error


@pytest.mark.req("M-01")
def test_the_job_of_an_inactive_mailbox_is_canceled(mailbox: Mailbox) -> None:
    sync_now(mailbox)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(active=False)
    assert isinstance(work_off(), Canceled)


@pytest.mark.req("T-02", "J-11")
def test_a_mailbox_of_another_firm_is_not_found(mailbox: Mailbox, other_firm: Firm) -> None:
    foreign = open_account(other_firm, "boss@globex.example")
    job = run_job("sync", {"account_id": foreign.pk}, firm=mailbox.firm)
    assert job.status == "dlq"
    assert stored(DeadLetterQueue)[0].reason == DeadReason.FATAL


@pytest.mark.req("J-03")
@pytest.mark.parametrize(
    ("job_type", "payload", "field"),
    [
        ("sync", {}, "account_id"),
        ("sync", {"account_id": "no uuid"}, "account_id"),
        ("sync", {"force_full": "yes"}, "force_full"),
        ("ingest.gmail", {"gmail_message_id": ""}, "gmail_message_id"),
        ("ingest.gmail", {"gmail_message_id": "x" * 65}, "gmail_message_id"),
        ("ingest.gmail", {"gmail_message_id": "1", "subject": "text"}, "subject"),
        ("classify", {"force": 1}, "force"),
    ],
)
def test_payloads_that_do_not_fit_are_refused_by_field(
    mailbox: Mailbox, job_type: str, payload: dict[str, Any], field: str
) -> None:
    full = {"account_id": str(mailbox.account.pk), **payload} if payload else {}
    with firm_scope(mailbox.firm), pytest.raises(PayloadInvalid) as caught:
        enqueue(job_type, full)
    assert field in [error["field"] for error in caught.value.errors]


@pytest.mark.req("M-09")
def test_a_reply_while_the_thread_waits_is_judged_after_the_first(mailbox: Mailbox) -> None:
    at = datetime(2026, 3, 5, 9, 30, tzinfo=UTC)
    first = mailbox.receive(letter("Price", message_id="<1@x.example>", at=at))
    second = mailbox.receive(
        letter("Re: Price", "Well?", reply_to_id="<1@x.example>", at=at + timedelta(1))
    )
    with firm_scope(mailbox.firm):
        request_backfill(mailbox.account)
    drain()
    (decision,) = stored(Decision)
    assert decision.message_id == mailbox.message(second).pk
    assert mailbox.labels(first) == {"INBOX", "UNREAD"}
    skipped = [job.result.get("skipped", False) for job in jobs("classify", live=False)]
    assert sorted(skipped) == [False, True]
