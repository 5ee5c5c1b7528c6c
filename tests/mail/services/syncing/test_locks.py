"""Jobs that store mail and jobs that judge it at the same moment do not deadlock."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from mail.models import Decision, OutboundMessage, Rule
from mail.services.deciding import classify, classify_page
from mail.services.deciding.classify import decide, judge, open_case
from mail.services.syncing.ingest import ingest_message
from tenants.scope import firm_scope
from tests.mail.draft_kit import rule
from tests.mail.mail_kit import FixedClassifier, Mailbox, letter, stored
from tests.support.databases import is_waited_for, postgresql_only
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), postgresql_only]


def ingest(mailbox: Mailbox, gmail_message_id: str) -> dict[str, Any]:
    """Store a message on a thread of its own."""
    try:
        return ingest_message(mailbox.account, mailbox.gmail, gmail_message_id)
    finally:
        connection.close()


def test_mail_stored_while_its_thread_is_judged_is_no_deadlock(mailbox: Mailbox) -> None:
    mailbox.receive(letter(message_id="<first@customer.example>"))
    (message,) = mailbox.store_all()
    account, job = mailbox.account, uuid4()
    with firm_scope(mailbox.firm):
        case = open_case(account, message.thread_id, message.pk, job_id=job, force=False)
    verdict, source = judge(case, FixedClassifier())
    answer = mailbox.receive(letter("Re: Question", reply_to_id="<first@customer.example>"))

    with ThreadPoolExecutor(1) as pool:
        # The decision refers to the mailbox, whose row the database therefore locks at the commit.
        with firm_scope(mailbox.firm):
            decide(account, case, verdict, source=source, job_id=job)
            ingested = pool.submit(ingest, mailbox, answer)
            wait_until(is_waited_for, "the ingest waits for the thread")
        assert ingested.result()["created"]
    assert [decision.message_id for decision in stored(Decision)] == [message.pk]
    assert len(mailbox.messages()) == 2


@pytest.mark.parametrize("by_page", [False, True])
def test_mail_stored_while_a_rule_answers_its_thread_is_no_deadlock(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, by_page: bool
) -> None:
    with firm_scope(mailbox.firm):
        rule(mailbox, category="needs_response")
        Rule.objects.update(actions=[{"action": "auto_reply", "parameters": {"body": "Thanks."}}])
    mailbox.receive(letter(message_id="<first@customer.example>"))
    (message,) = mailbox.store_all()
    answer = mailbox.receive(letter("Re: Question", reply_to_id="<first@customer.example>"))
    account, job = mailbox.account, uuid4()

    with ThreadPoolExecutor(1) as pool:
        ingests: list[Future[dict[str, Any]]] = []

        def ingest_now(decision: Decision) -> None:
            ingests.append(pool.submit(ingest, mailbox, answer))
            wait_until(is_waited_for, "the ingest waits for the thread, or the mailbox")

        module = classify_page if by_page else classify
        monkeypatch.setattr(module, "follow_decision", ingest_now)
        if by_page:
            classify_page.classify_page(account, [message.pk], FixedClassifier(), job_id=job)
        else:
            thread_id = message.thread_id
            classify.classify_thread(account, thread_id, message.pk, FixedClassifier(), job_id=job)
        assert ingests[0].result()["created"]
    assert [reply.kind for reply in stored(OutboundMessage)] == ["reply"]
