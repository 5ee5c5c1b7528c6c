"""Jobs about one mailbox are told apart by it: what fails for one stops no other of its firm."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import pytest

from jobs.engine.outcomes import Completed, Retry
from jobs.errors import Retryable, Snooze
from jobs.models import CircuitBreaker, Pause
from jobs.queue import enqueue
from jobs.registry import get
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailAuthExpired
from mail.gmail.simulator.faults import LOST_REQUEST
from mail.job_handlers import base
from mail.job_handlers.base import GMAIL_BREAKER, mailbox_key
from mail.models import MailAccount
from mail.services.mailboxes.accounts import open_account
from mail.services.mailboxes.gmail_connection import gmail_of
from tenants.scope import firm_scope
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


@pytest.mark.req("M-02")
def test_a_mailbox_without_answers_takes_no_second_thread(mailbox: Mailbox) -> None:
    silent, other = mailbox.account, open_account(mailbox.firm, "other@acme.example")

    def working_on(account: MailAccount) -> AbstractContextManager[tuple[Any, GmailClient]]:
        return base.usable_mailbox(mailbox.firm.pk, account.pk)

    with working_on(silent), working_on(silent):
        """While Gmail answers, jobs go side by side."""
    mailbox.simulator.order_fault(LOST_REQUEST, address=silent.address)
    with pytest.raises(Retryable), working_on(silent) as (_, gmail):
        gmail.profile()
    assert rows(Pause) == []

    with working_on(silent) as (_, gmail):
        with pytest.raises(Snooze), working_on(silent):
            """Gmail may still not answer: one finds out, the others wait."""
        with working_on(other):
            """Of another mailbox nobody waits."""
        (pause,) = rows(Pause)
        assert pause.limit_key == f"mailbox:{silent.pk}"
        assert pause.until == mailbox.reload().held_until
        gmail.profile()
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(held_until=None)
    with working_on(silent), working_on(silent):
        """It does again."""
