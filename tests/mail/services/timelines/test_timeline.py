"""A message's timeline has all that happened to it, in order, and nothing of another message."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.models import JobQueue
from jobs.testing import drain
from mail.models import ActionType, LLMCall, MailEvent, Message, Scope
from mail.services.actions.actions import request_action
from mail.services.actions.undo import request_undo
from mail.services.queueing import request_sync
from mail.services.rules.operations import create_rule
from mail.services.timelines.timeline import EntryKind, TimelineEntry, timeline_of
from tenants.scope import firm_scope
from tests.mail.document_kit import pdf, with_attachments
from tests.mail.mail_kit import Mailbox, jobs, letter, without_drafts
from tests.mail.send_kit import answer, at_once

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-21")]


def story(mailbox: Mailbox, message: Message, *, is_readable: bool = True) -> list[TimelineEntry]:
    with firm_scope(mailbox.firm):
        return timeline_of(message, is_readable=is_readable)


def told(entries: list[TimelineEntry]) -> list[str]:
    return [f"{entry.kind}: {entry.title}" for entry in entries]


@pytest.fixture
def arrived(mailbox: Mailbox) -> Message:
    """Let a message arrive, be classified and labelled by jobs, starred, and the star undone."""
    at_once(mailbox)
    gmail_id = mailbox.receive(letter("Price list", "Could you send me the price list?"))
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account)
    drain()
    message = mailbox.message(gmail_id)
    with firm_scope(mailbox.firm):
        star = request_action(message, ActionType.STAR, {}, needs_approval=False)
    drain()
    with firm_scope(mailbox.firm):
        star.refresh_from_db()
        request_undo(star)
    answer(mailbox, gmail_id, "Here it is.")
    drain()
    return message


def test_everything_is_told_in_order(mailbox: Mailbox, arrived: Message) -> None:
    entries = story(mailbox, arrived)
    assert [entry.at for entry in entries] == sorted(entry.at for entry in entries)
    lines = told(entries)
    for first, second in zip(
        ["job: sync", "event: Ingested", "decision: Needs response", "action: Apply label",
         "action: Star", "action: Undo of “Star”", "event: Action undone"],
        ["event: Ingested", "job: classify", "action: Apply label", "action: Star",
         "action: Undo of “Star”", "event: Undo requested", "outbound: Reply"],
        strict=True,
    ):  # fmt: skip
        begins = [
            min(n for n, line in enumerate(lines) if line.startswith(one))
            for one in (first, second)
        ]
        if second != "outbound: Reply":
            assert begins == sorted(begins), (first, second, lines)
    assert "outbound: Reply" in lines
    assert "event: Sent" in lines
    # The timeline has every job once, because all jobs were about this message.
    assert sorted(entry.row.pk for entry in entries if entry.kind == "job") == sorted(
        job.pk for job in jobs(live=False) if job.job_type != "labels.sync.gmail"
    )


def test_what_can_be_undone_is_marked(mailbox: Mailbox, arrived: Message) -> None:
    why_not = {
        entry.title: entry.why_not_undoable
        for entry in story(mailbox, arrived)
        if entry.kind == "action"
    }
    assert why_not["Apply label"] == ""
    assert why_not["Star"] == "The action is undone already."
    assert why_not["Undo of “Star”"]


@pytest.mark.req("M-23")
def test_who_may_not_read_the_mailbox_is_told_what_happened_and_not_what_the_mail_says(
    mailbox: Mailbox, arrived: Message
) -> None:
    open_to_readers = story(mailbox, arrived)
    closed = story(mailbox, arrived, is_readable=False)
    assert told(closed) == told(open_to_readers)
    assert any("anna@customer.example" in entry.content for entry in open_to_readers)
    assert any("Needs Response" in entry.content for entry in open_to_readers)
    assert {entry.content for entry in closed} == {""}
    assert not any("Needs Response" in entry.detail for entry in closed)


@pytest.mark.req("M-23")
def test_the_name_of_a_mailboxs_own_rule_is_for_its_readers(
    mailbox: Mailbox, arrived: Message
) -> None:
    of_the_mailbox = {"account_id": mailbox.account.pk, "scope": Scope.ACCOUNT}
    with firm_scope(mailbox.firm):
        for name, more in (("Lawyers", of_the_mailbox), ("Invoices", {})):
            rule = create_rule(
                mailbox.firm.pk, name=name, category="fyi",
                conditions={"type": "sender_email", "value": "anna@customer.example"}, **more,
            )  # fmt: skip
            request_action(arrived, ActionType.STAR, {}, rule=rule)
    for is_readable, seen in ((True, True), (False, False)):
        details = [entry.detail for entry in story(mailbox, arrived, is_readable=is_readable)]
        assert any("Lawyers" in detail for detail in details) is seen
        assert any("Invoices" in detail for detail in details)


def test_another_message_is_none_of_its_business(mailbox: Mailbox, arrived: Message) -> None:
    before = told(story(mailbox, arrived))
    other = mailbox.receive(letter("Another"))
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account)
    drain()
    assert told(story(mailbox, arrived)) == before
    assert "event: Ingested" in told(story(mailbox, mailbox.message(other)))


def test_a_job_that_left_nothing_but_itself_is_told(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jobs.errors import Fatal

    def refuse(*_: object, **__: object) -> None:
        raise Fatal("the classifier is gone")

    monkeypatch.setattr("mail.job_handlers.classify.classify_thread", refuse)
    gmail_id = mailbox.receive()
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account)
    drain()
    (classify,) = [
        entry for entry in story(mailbox, mailbox.message(gmail_id)) if entry.title == "classify"
    ]
    assert (classify.status, classify.kind) == ("dlq", "job")
    assert "the classifier is gone" in classify.detail


@pytest.mark.req("U-06")
def test_documents_are_told_with_their_jobs_also_where_no_event_leads_to_them(
    mailbox: Mailbox,
) -> None:
    without_drafts(mailbox)
    mailbox.receive(with_attachments(("prices.pdf", pdf()), ("broken.docx", b"PK")))
    (message,) = mailbox.store_all()
    drain()
    with firm_scope(mailbox.firm):
        MailEvent.objects.all().delete()
    entries = story(mailbox, message)
    documents = [one for one in entries if one.kind == EntryKind.DOCUMENT]
    assert {(one.content, one.status, one.detail) for one in documents} == {
        ("prices.pdf", "read", ""),
        ("broken.docx", "unreadable", "It is damaged"),
    }
    steps = {one.title for one in entries if one.kind == EntryKind.JOB}
    assert {"attachment.fetch", "malware_scan", "text_extract"} <= steps
    hidden = story(mailbox, message, is_readable=False)
    assert {one.content for one in hidden if one.kind == EntryKind.DOCUMENT} == {""}


def test_model_calls_are_told(mailbox: Mailbox, arrived: Message) -> None:
    with firm_scope(mailbox.firm):
        LLMCall.objects.create(
            account=mailbox.account, message=arrived, call_type="classify", provider="openai",
            model="clever-1", prompt_tokens=900, completion_tokens=40, latency_ms=1200,
            job_id=uuid4(),
        )  # fmt: skip
    (call,) = [entry for entry in story(mailbox, arrived) if entry.kind == "model_call"]
    assert (call.title, call.status) == ("clever-1 asked to classify", "answered")
    assert "900 tokens in" in call.detail


@pytest.mark.req("O-03")
def test_the_queries_do_not_grow_with_what_happened(mailbox: Mailbox, arrived: Message) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            story(mailbox, arrived)
        return len(captured)

    few = queries()
    for _ in range(5):
        with firm_scope(mailbox.firm):
            request_action(arrived, ActionType.STAR, {}, needs_approval=False)
        drain()
    with firm_scope(mailbox.firm):
        assert JobQueue.objects.filter(job_type="action.gmail").count() > 5
    assert queries() == few
