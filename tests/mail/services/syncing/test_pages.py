"""Mail in pages: the results are as one by one, with fewer requests; what fails leaves its page."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest
from django.db import DataError

from jobs.testing import assert_enqueued, assert_idempotent, run_job
from mail.errors import MailboxWaits
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailRateLimited, GmailUnavailable
from mail.gmail.simulator.faults import LOST_ANSWER, Fault
from mail.labels import LABEL_NAMES
from mail.llm.base import Category, Classification, MailContext
from mail.models import (
    Action,
    ActionStatus,
    Decision,
    EventType,
    MailEvent,
    MailThread,
    Message,
)
from mail.services.deciding.classify import classify_thread
from mail.services.deciding.classify_page import classify_page
from mail.services.deciding.label_page import label_page
from mail.services.queueing import request_sync
from mail.services.syncing import ingest
from mail.services.syncing.ingest import ingest_page
from tenants.scope import firm_scope
from tests.mail.mail_kit import (
    FixedClassifier,
    Mailbox,
    drain,
    jobs,
    letter,
    only,
    stored,
    without_drafts,
)
from tests.mail.services.rules.test_rules import rule_of
from tests.queue_kit import later

pytestmark = pytest.mark.django_db

LABEL = LABEL_NAMES[Category.NEEDS_RESPONSE.label]


def ingest_all(mailbox: Mailbox, ids: list[str]) -> dict[str, object]:
    return ingest_page(mailbox.account, mailbox.gmail, ids)


def judge_all(mailbox: Mailbox, classifier: FixedClassifier | None = None) -> dict[str, object]:
    message_ids = [message.pk for message in mailbox.messages()]
    judge = classifier or FixedClassifier()
    return classify_page(mailbox.account, message_ids, judge, job_id=uuid4())


def judged(mailbox: Mailbox, count: int = 12) -> list[str]:
    """Let mail arrive and be judged, so that labels are asked for; return Gmail's ids."""
    ids = mailbox.receive_many(count)
    ingest_all(mailbox, ids)
    judge_all(mailbox)
    return ids


def put_labels_on(mailbox: Mailbox, gmail: GmailClient | None = None) -> dict[str, object]:
    (job,) = jobs("label.page.gmail")
    ids = [action.pk for action in stored(Action)]
    return label_page(mailbox.account, gmail or mailbox.gmail, ids, job_id=job.job_id)


def failing(gmail: GmailClient, method: str, error: Exception) -> GmailClient:
    def fail(*_: object, **__: object) -> object:
        raise error

    setattr(gmail, method, fail)
    return gmail


@pytest.mark.req("M-04", "M-06", "M-09")
@pytest.mark.django_db(transaction=True)
def test_a_page_leads_from_mailbox_to_labels(mailbox: Mailbox) -> None:
    without_drafts(mailbox)
    arrived = mailbox.receive_many(12)
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account)
    drain()
    finished = [(job.job_type, job.status) for job in jobs(live=False)]
    assert finished == [
        ("sync", "completed"),
        ("ingest.page.gmail", "completed"),
        ("classify.page", "completed"),
        ("label.page.gmail", "completed"),
    ]
    decisions = {one.message_id: one.category for one in stored(Decision)}
    for one in arrived:
        category = Category(decisions[mailbox.message(one).pk])
        assert LABEL_NAMES[category.label] in mailbox.labels(one)
    assert {action.status for action in stored(Action)} == {ActionStatus.COMPLETED}


@pytest.mark.req("M-06")
def test_a_page_stores_what_single_jobs_store(mailbox: Mailbox) -> None:
    ids = mailbox.receive_many(6)
    result = ingest_all(mailbox, ids)
    assert result == {"created": 6, "known": 0, "skipped": 0, "ingested_alone": 0}
    fields = [field.attname for field in Message._meta.concrete_fields]
    fields.remove("created_at")
    by_page = [[getattr(one, field) for field in fields] for one in mailbox.messages()]
    mailbox.store_all()
    assert [[getattr(one, field) for field in fields] for one in mailbox.messages()] == by_page
    assert [event.event_type for event in stored(MailEvent)] == [EventType.INGESTED] * 6
    assert {message.thread.message_count for message in mailbox.messages()} == {1}
    assert ingest_all(mailbox, ids)["known"] == 6


@pytest.mark.req("M-06")
def test_messages_of_one_conversation_share_a_thread_and_are_judged_once(mailbox: Mailbox) -> None:
    first = mailbox.receive(letter("Price", message_id="<1@x.example>"))
    answers = [
        mailbox.receive(letter("Re: Price", f"Text {n}", reply_to_id="<1@x.example>"))
        for n in range(2)
    ]
    others = mailbox.receive_many(4)
    ingest_all(mailbox, [first, *answers, *others])
    assert mailbox.message(first).thread.message_count == 3
    (job,) = jobs("classify.page")
    assert len(job.payload["message_ids"]) == 5
    judge_all(mailbox)
    assert len(stored(Decision)) == 5


@pytest.mark.req("M-06")
@pytest.mark.parametrize("how", ["gmail", "parser"])
def test_a_message_that_fails_leaves_the_page(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    ids = mailbox.receive_many(6)
    if how == "gmail":
        mailbox.simulator.order_fault(Fault(503), method="messages.get")
    else:
        monkeypatch.setattr(ingest, "parse_message", once(ingest.parse_message, RecursionError()))
    result = ingest_all(mailbox, ids)
    assert (result["created"], result["ingested_alone"]) == (5, 1)
    (alone,) = jobs("ingest.gmail")
    assert alone.payload["gmail_message_id"] not in {
        message.gmail_message_id for message in mailbox.messages()
    }


def once(function: Callable[..., object], error: Exception) -> Callable[..., object]:
    """Return the function, which raises the error at its first call."""
    errors = [error]

    def call(*arguments: object, **options: object) -> object:
        if errors:
            raise errors.pop()
        return function(*arguments, **options)

    return call


@pytest.mark.req("M-06")
def test_what_the_database_refuses_is_ingested_alone(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = mailbox.receive_many(6)

    def refuse(*_: object) -> object:
        raise DataError("a value it does not take")

    monkeypatch.setattr(ingest, "store_messages", refuse)
    assert ingest_all(mailbox, ids)["ingested_alone"] == 6
    assert sorted(job.payload["gmail_message_id"] for job in jobs("ingest.gmail")) == sorted(ids)


@pytest.mark.req("M-06")
def test_mail_that_is_gone_or_a_draft_is_passed_over(mailbox: Mailbox) -> None:
    draft = mailbox.receive(labels=("DRAFT",))
    (kept,) = mailbox.receive_many(1)
    result = ingest_all(mailbox, [draft, "18c0ffee18c0ffee", kept])
    assert (result["created"], result["skipped"]) == (1, 2)


@pytest.mark.req("M-02", "M-06")
def test_what_was_read_before_gmail_said_enough_is_stored(mailbox: Mailbox) -> None:
    ids = mailbox.receive_many(6)
    mailbox.simulator.order_fault(Fault(429, retry_after=9), method="messages.get")
    with pytest.raises(GmailRateLimited):
        ingest_all(mailbox, ids)
    assert len(mailbox.messages()) == 5
    assert jobs("ingest.gmail") == []
    assert ingest_all(mailbox, ids)["created"] == 1


@pytest.mark.req("M-02", "M-06")
def test_a_page_asks_gmail_for_no_more_messages_at_once_than_it_answers(mailbox: Mailbox) -> None:
    assert ingest_all(mailbox, mailbox.receive_many(30))["created"] == 30


@pytest.mark.req("M-06")
def test_a_second_attempt_takes_each_message_alone(mailbox: Mailbox) -> None:
    ids = mailbox.receive_many(6)
    mailbox.simulator.order_fault(LOST_ANSWER, method="messages.get")
    payload = {"account_id": mailbox.account.pk, "gmail_message_ids": ids}
    job = run_job("ingest.page.gmail", payload, firm=mailbox.firm)
    assert (job.status, mailbox.messages()) == ("pending", [])
    with later(3600):
        assert run_job(job).result == {"ingested_alone": 6}


@pytest.mark.req("M-04")
def test_labels_that_change_while_a_page_is_read_are_read_again(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account)
    drain_syncs(mailbox)
    ids = mailbox.receive_many(6)
    parse = ingest.parse_message

    def change(*arguments: object, **options: object) -> object:
        monkeypatch.setattr(ingest, "parse_message", parse)
        mailbox.gmail.modify_message(ids[0], add=["STARRED"])
        drain_syncs(mailbox)
        return parse(*arguments, **options)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(ingest, "parse_message", change)
    ingest_all(mailbox, ids)
    assert "STARRED" in mailbox.message(ids[0]).labels


def drain_syncs(mailbox: Mailbox) -> None:
    from mail.services.syncing.sync import sync_mailbox

    sync_mailbox(mailbox.account, mailbox.gmail)


@pytest.mark.req("M-09")
def test_a_page_is_judged_as_single_threads_are(mailbox: Mailbox) -> None:
    judged(mailbox, 6)
    assert [event.event_type for event in stored(MailEvent)].count(EventType.CLASSIFIED) == 6
    for decision in stored(Decision, select_related=("message__thread",)):
        thread = decision.message.thread
        assert (thread.classification, thread.classified_upto_id) == (
            decision.category,
            decision.message_id,
        )
    assert judge_all(mailbox) == {"classified": 0, "classified_alone": 0}
    assert len(stored(Decision)) == 6


@pytest.mark.req("M-09", "M-10")
def test_rules_hold_for_a_page_too(mailbox: Mailbox) -> None:
    conditions = {"type": "subject_contains", "value": "Question 3"}
    actions = [{"action": "archive", "parameters": {}}]
    rule = rule_of(
        mailbox.firm, conditions=conditions, actions=actions, category=Category.PAYMENT_REQUEST
    )
    rule_of(mailbox.firm, scope="domain", scope_ref="elsewhere.example", actions=actions)
    ids = judged(mailbox, 6)
    ruled = mailbox.message(ids[3])
    assert ruled.thread.classification == Category.PAYMENT_REQUEST
    decision = only(stored(Decision), message_id=ruled.pk)
    assert decision.source == "rule"
    action = only(stored(Action), action_type="archive")
    assert (action.message_id, action.rule_id) == (ruled.pk, rule.pk)
    assert {message.thread.classification for message in mailbox.messages()} == {
        Category.PAYMENT_REQUEST,
        Category.NEEDS_RESPONSE,
    }


class Stumbling(FixedClassifier):
    """Raises an error for the first message."""

    def classify(self, mail: MailContext) -> Classification:
        if not self.asked:
            self.asked += 1
            raise RuntimeError("this one is odd")
        return super().classify(mail)


@pytest.mark.req("M-09")
def test_threads_that_need_their_lock_or_fail_are_judged_alone(mailbox: Mailbox) -> None:
    ids = mailbox.receive_many(6)
    ingest_all(mailbox, ids)
    busy = mailbox.message(ids[0])
    with firm_scope(mailbox.firm):
        Action.objects.create(account=mailbox.account, message=busy, action_type="archive")
    result = judge_all(mailbox, Stumbling())
    assert result == {"classified": 4, "classified_alone": 2}
    assert str(busy.pk) in [job.payload["message_id"] for job in jobs("classify")]


@pytest.mark.req("M-15")
def test_labels_go_on_with_one_request_and_can_be_taken_back(mailbox: Mailbox) -> None:
    ids = judged(mailbox)
    gmail = failing(mailbox.gmail, "modify_message", AssertionError("one by one"))
    assert put_labels_on(mailbox, gmail) == {"labelled": len(ids)}
    for one in ids:
        assert LABEL in mailbox.labels(one)
        labels = mailbox.message(one).labels
        assert labels == sorted(mailbox.gmail.get_message(one, "minimal")["labelIds"])
    for action in stored(Action):
        assert action.status == ActionStatus.COMPLETED
        assert action.executed_at is not None
        assert action.undo_hint["inverse_action"] == "remove_label"
        assert len(action.undo_hint["inverse_parameters"]["remove_labels"]) == 1
        assert action.undo_hint["inverse_parameters"]["add_labels"] == []
    events = [event.event_type for event in stored(MailEvent)]
    assert events.count(EventType.ACTION_COMPLETED) == len(ids)


@pytest.mark.req("M-15")
def test_few_labels_go_on_one_by_one_and_mail_that_is_gone_is_let_go(mailbox: Mailbox) -> None:
    ids = judged(mailbox, 6)
    messages = mailbox.gmail._resources.messages
    mailbox.gmail._execute(messages.delete(userId="me", id=ids[0]))
    assert put_labels_on(mailbox) == {"labelled": 5}
    assert sorted(action.status for action in stored(Action)) == ["canceled"] + ["completed"] * 5


@pytest.mark.req("M-15")
def test_a_label_gmail_refuses_is_tried_action_by_action(mailbox: Mailbox) -> None:
    judged(mailbox)
    mailbox.simulator.order_fault(Fault(400, reason="badRequest"), method="messages.batchModify")
    assert put_labels_on(mailbox) == {"labelled": 0}
    assert len(jobs("action.gmail")) == 12
    assert {(one.status, one.pre_image) for one in stored(Action)} == {("queued", None)}


@pytest.mark.req("M-15")
def test_an_interrupted_page_of_labels_is_gone_on_with(mailbox: Mailbox) -> None:
    judged(mailbox)
    gmail = failing(mailbox.gmail, "batch_modify", GmailUnavailable(reason="timeout"))
    with pytest.raises(GmailUnavailable):
        put_labels_on(mailbox, gmail)
    assert {action.status for action in stored(Action)} == {"executing"}
    assert put_labels_on(mailbox) == {"labelled": 12}


@pytest.mark.req("M-15")
def test_a_page_of_labels_fails_only_at_its_end(mailbox: Mailbox) -> None:
    judged(mailbox)
    mailbox.simulator.order_fault(Fault(403), method="messages.batchModify")
    (job,) = jobs("label.page.gmail")
    assert run_job(job).status == "dlq"
    assert {action.status for action in stored(Action)} == {"failed"}
    assert len([one for one in stored(MailEvent) if one.event_type == "action_failed"]) == 12


@pytest.mark.req("M-09", "M-15")
def test_a_verdict_waits_while_its_threads_first_label_is_put_on(mailbox: Mailbox) -> None:
    ids = judged(mailbox)
    gmail = failing(mailbox.gmail, "batch_modify", GmailUnavailable(reason="timeout"))
    with pytest.raises(GmailUnavailable):
        put_labels_on(mailbox, gmail)
    message = mailbox.message(ids[0])

    def judge_again() -> object:
        classifier = FixedClassifier(Category.FYI)
        return classify_thread(
            mailbox.account,
            message.thread_id,
            message.pk,
            classifier,
            job_id=uuid4(),
            force=True,
        )

    with pytest.raises(MailboxWaits):
        judge_again()
    assert len(stored(Decision)) == 12
    put_labels_on(mailbox)
    run_job(jobs("label.page.gmail")[0])
    judge_again()
    assert len(stored(Decision)) == 13


@pytest.mark.req("M-15")
def test_a_label_taken_back_before_it_was_put_on_is_left_out(mailbox: Mailbox) -> None:
    ids = judged(mailbox)
    message = mailbox.message(ids[0])
    classify_thread(
        mailbox.account,
        message.thread_id,
        message.pk,
        FixedClassifier(Category.FYI),
        job_id=uuid4(),
        force=True,
    )
    assert put_labels_on(mailbox) == {"labelled": 12}
    first = only(stored(Action), message_id=message.pk, status=ActionStatus.CANCELED)
    assert first.parameters == {"label": LABEL}


@pytest.mark.req("J-27")
@pytest.mark.parametrize("job_type", ["ingest.page.gmail", "classify.page", "label.page.gmail"])
def test_each_kind_of_page_may_run_twice(mailbox: Mailbox, job_type: str) -> None:
    ids = mailbox.receive_many(12)
    if job_type == "ingest.page.gmail":
        check_twice(mailbox, ids, job_type, gmail_message_ids=ids)
        return
    ingest_all(mailbox, ids)
    if job_type == "label.page.gmail":
        judge_all(mailbox)
    (job,) = jobs(job_type)
    (waiting,) = assert_enqueued(job_type)
    assert waiting.job_id == job.job_id
    check_twice(mailbox, ids, waiting)


def check_twice(mailbox: Mailbox, ids: list[str], job: object, **payload: object) -> None:
    assert_idempotent(
        job,
        {"account_id": mailbox.account.pk, **payload} if payload else None,
        firm=mailbox.firm,
        snapshot=lambda: [mailbox.labels(one) for one in ids],
    )


@pytest.mark.req("M-09", "M-12")
def test_of_a_page_what_is_too_unsure_gets_no_label_and_is_judged_once(mailbox: Mailbox) -> None:
    ingest_all(mailbox, mailbox.receive_many(3))
    unsure = FixedClassifier(labelled=False)
    assert judge_all(mailbox, unsure)["classified"] == 3
    assert {one.classification for one in stored(MailThread)} == {""}
    assert stored(Action) == []
    assert jobs("label.page.gmail") == jobs("draft") == []
    assert judge_all(mailbox, unsure)["classified"] == 0
    assert unsure.asked == 3
