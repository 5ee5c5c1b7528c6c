"""Jobs about one mailbox are told apart by it: what fails for one stops no other of its firm."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from jobs.engine.outcomes import Completed, Retry
from jobs.models import CircuitBreaker
from jobs.queue import enqueue
from jobs.registry import get
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailAuthExpired
from mail.job_handlers import base
from mail.job_handlers.base import GMAIL_BREAKER, mailbox_key
from mail.models import MailAccount
from mail.services.mailboxes.accounts import open_account
from mail.services.mailboxes.gmail_connection import gmail_of
from tests.mail.mail_kit import Mailbox, drain
from tests.queue_kit import row, rows

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-24", "O-07")]


@pytest.mark.parametrize(
    "job_type",
    ["sync", "history.sync.gmail", "backfill.gmail", "ingest.gmail", "classify", "action.gmail"],
)
def test_types_about_a_mailbox_are_limited_by_it(job_type):
    assert get(job_type).limit_key is mailbox_key


def test_refused_credentials_of_one_mailbox_do_not_stop_another(mailbox: Mailbox) -> None:
    refused = open_account(mailbox.firm, "locked.out@acme.example")

    def connect(account: MailAccount) -> GmailClient:
        if account.pk == refused.pk:
            raise GmailAuthExpired(status=401)
        return gmail_of(account)

    def ingest(account: MailAccount, message: str) -> Any:
        payload = {"account_id": account.pk, "gmail_message_id": message}
        return enqueue("ingest.gmail", payload, firm=mailbox.firm).job_id

    with patch.object(base, "gmail_of", connect):
        for number in range(GMAIL_BREAKER.min_attempts):
            ingest(refused, f"{number:x}")
        outcomes = drain()
        assert {type(one) for one in outcomes} == {Retry}
        (breaker,) = rows(CircuitBreaker)
        assert (breaker.limit_key, breaker.state) == (f"mailbox:{refused.pk}", "open")

        held = ingest(refused, "ff")
        ingest(mailbox.account, mailbox.receive())
        assert {type(one) for one in drain()} == {Completed}
    assert (row(held).status, row(held).attempts) == ("pending", 0)
