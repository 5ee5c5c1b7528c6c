"""Jobs about a mailbox have its limit key, so its failures stop no other mailbox of the firm."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest

from jobs.engine.outcomes import Completed, Retry
from jobs.errors import Retryable, Snooze
from jobs.models import CircuitBreaker, Pause, RateLimit
from jobs.operations import limits
from jobs.queries.why_waiting import WaitCode
from jobs.queue import enqueue, why_waiting
from jobs.registry import get
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailAuthExpired
from mail.gmail.simulator.faults import LOST_REQUEST
from mail.job_handlers import base
from mail.job_handlers.base import GMAIL_BREAKER, mailbox_key
from mail.models import MailAccount
from mail.services.mailboxes import unanswered
from mail.services.mailboxes.accounts import open_account
from mail.services.mailboxes.connection import pace_mailboxes
from mail.services.mailboxes.credentials import gmail_of
from tenants.scope import all_firms, firm_scope
from tests.mail.mail_kit import Mailbox, drain
from tests.queue_kit import later, row, rows

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


@pytest.mark.req("M-02")
@pytest.mark.parametrize(
    ("job_type", "payload", "units"),
    [
        ("sync", {}, 3),
        ("sync", {"force_full": True}, 18),
        ("ingest.gmail", {"gmail_message_id": "f1"}, 5),
        ("ingest.page.gmail", {"gmail_message_ids": [f"f{n}" for n in range(100)]}, 500),
        ("watch.renew.gmail", {}, 100),
        ("outbound.send", {"outbound_id": uuid4()}, 115),
    ],
)
def test_a_job_counts_what_gmail_counts_for_it(
    mailbox: Mailbox, job_type: str, payload: dict[str, Any], units: int
) -> None:
    stored = enqueue(job_type, {"account_id": mailbox.account.pk, **payload}, firm=mailbox.firm)
    assert row(stored.job_id).limit_units == units


@pytest.mark.req("M-02")
def test_two_jobs_of_a_mailbox_wait_for_its_first_answer(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unanswered, "PATIENCE_SECONDS", 0)
    monkeypatch.setattr(unanswered, "BEGINNING_SECONDS", 0)
    quiet, other = mailbox.account, open_account(mailbox.firm, "other@acme.example")

    def working_on(account: MailAccount) -> AbstractContextManager[tuple[Any, GmailClient]]:
        return base.usable_mailbox(mailbox.firm.pk, account.pk)

    with working_on(quiet) as (_, first), working_on(quiet) as (_, second):
        with working_on(quiet):
            """Nobody has asked Gmail yet."""
        first.exchange.is_waiting = second.exchange.is_waiting = True
        with pytest.raises(Snooze) as raised, working_on(quiet):
            """Two find out whether Gmail answers."""
        assert raised.value.seconds == unanswered.LATER_SECONDS
        with working_on(other):
            """Of another mailbox nobody waits."""
        first.profile()
        with firm_scope(mailbox.firm):
            MailAccount.objects.update(held_until=None)
        with working_on(quiet):
            """Gmail has answered one of them."""


@pytest.mark.req("M-02")
def test_a_full_scan_paces_a_firm_whose_mailboxes_were_connected_before(connected: Mailbox) -> None:
    request_sync_of(connected, force_full=False)
    assert rows(RateLimit) == []

    request_sync_of(connected, force_full=True)

    (limit,) = rows(RateLimit)
    assert (limit.counted_by, limit.amount, limit.per_seconds) == ("key", 9_000, 60)


def request_sync_of(mailbox: Mailbox, *, force_full: bool) -> None:
    payload = {"account_id": mailbox.account.pk, "force_full": force_full}
    enqueue("sync", payload, firm=mailbox.firm)
    drain()


@pytest.mark.req("M-02")
def test_mailboxes_spend_no_more_than_gmail_lets_each_of_them(mailbox: Mailbox) -> None:
    other = open_account(mailbox.firm, "other@acme.example")
    with firm_scope(mailbox.firm):
        limits.set_rate_limit(None, 60, 60, burst=30, firm=mailbox.firm, counted_by="key")
        pace_mailboxes(mailbox.firm.pk)
    (kept,) = rows(RateLimit)
    assert (kept.amount, kept.burst) == (60, 30)
    ids = mailbox.receive_many(12)

    def page(account: MailAccount, part: list[str]) -> Any:
        payload = {"account_id": account.pk, "gmail_message_ids": part}
        return enqueue("ingest.page.gmail", payload, firm=mailbox.firm).job_id

    first, second, others = (
        page(mailbox.account, ids[:6]),
        page(mailbox.account, ids[6:]),
        page(other, ids[:6]),
    )
    drain()
    assert [row(one).status for one in (first, second, others)] == [
        "completed",
        "pending",
        "completed",
    ]
    assert row(second).attempts == 0
    with all_firms("test"):
        reasons = why_waiting(row(second))
    (reason,) = [one for one in reasons if one.code == WaitCode.RATE_LIMITED]
    assert reason.until is not None
    with later(31):
        drain()
    assert row(second).status == "completed"
