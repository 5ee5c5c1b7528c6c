"""What stores mail and what judges it, at one moment: neither waits for the other in a circle."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from mail.models import Decision
from mail.services.deciding.classify import decide, judge, open_case
from mail.services.syncing.ingest import ingest_message
from tenants.scope import firm_scope
from tests.mail.mail_kit import FixedClassifier, Mailbox, letter, stored
from tests.support.databases import is_waited_for, postgresql_only
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), postgresql_only]


def test_mail_stored_while_its_thread_is_judged_is_no_deadlock(mailbox: Mailbox) -> None:
    mailbox.receive(letter(message_id="<first@customer.example>"))
    (message,) = mailbox.store_all()
    account, job = mailbox.account, uuid4()
    with firm_scope(mailbox.firm):
        case = open_case(account, message.thread_id, message.pk, job_id=job, force=False)
    verdict, source = judge(case, FixedClassifier())
    answer = mailbox.receive(letter("Re: Question", reply_to_id="<first@customer.example>"))

    def ingest() -> dict[str, Any]:
        try:
            return ingest_message(account, mailbox.gmail, answer)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        # The decision refers to the mailbox: the database looks for that one at the commit.
        with firm_scope(mailbox.firm):
            decide(account, case, verdict, source=source, job_id=job)
            ingested = pool.submit(ingest)
            wait_until(is_waited_for, "the ingest waits for the thread")
        assert ingested.result()["created"]
    assert [decision.message_id for decision in stored(Decision)] == [message.pk]
    assert len(mailbox.messages()) == 2
