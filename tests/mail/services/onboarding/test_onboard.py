"""`email_processing`: a new mailbox's last days are read, and its owner is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import Settings

from jobs.errors import Fatal
from jobs.models import Delivery, JobQueue
from jobs.queue import enqueue
from jobs.testing import assert_idempotent, run_job
from mail.gmail.errors import GmailRateLimited
from mail.models import MailAccount
from mail.services.onboarding import onboard
from mail.services.reminders.preferences import change_preference
from mail.services.syncing.ingest import ingest_page
from tenants.models import Role
from tenants.scope import firm_scope
from tests.factories.tenants import new_member
from tests.mail.mail_kit import Mailbox, jobs, letter, stored
from tests.support.receiver import receiver

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("U-01")]


@pytest.fixture
def owned(mailbox: Mailbox) -> Mailbox:
    """Return a private mailbox with an owner."""
    owner = new_member(mailbox.firm, Role.VIEWER)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(owner=owner, shared=False)
    mailbox.reload()
    return mailbox


def process(mailbox: Mailbox) -> JobQueue:
    asked = enqueue("email_processing", {"connection_id": mailbox.account.pk}, firm=mailbox.firm)
    return run_job(asked.job)


def test_one_message_is_told_in_the_singular() -> None:
    text = onboard.Overview(1, 1, 0, 1).in_words("ada@firm.example", 7)
    assert "1 message of the last 7 days" in text
    assert "1 conversation, 0 unread." in text
    assert "1 more message will follow" in text


def test_the_last_days_are_read_and_the_owner_is_told(
    owned: Mailbox, mailoutbox: list[Any]
) -> None:
    owned.receive_many(3)
    owned.receive(letter("Long ago"), at=datetime.now(UTC) - timedelta(days=9))
    done = process(owned)
    assert done.status == "completed", done.last_error
    text = (
        f"Mailroom has read 3 messages of the last 7 days in {owned.account.address}: "
        "3 conversations, 3 unread."
    )
    assert done.result == {
        "output_preview": text,
        "messages": 3,
        "partial": False,
        "remaining": 0,
        "notified": ["email"],
    }
    (notice,) = mailoutbox
    assert (notice.to, notice.body.strip()) == ([owned.account.owner.email], text)
    assert [row.event for row in stored(Delivery)] == ["onboarding"]
    assert {message.subject for message in owned.messages()} == {f"Question {n}" for n in range(3)}


def test_no_more_than_the_setting_says(owned: Mailbox, settings: Settings) -> None:
    settings.ONBOARDING_MESSAGES = 4
    owned.receive_many(6)
    assert process(owned).result["messages"] == 4


def test_a_rate_limit_makes_the_result_partial_and_loses_nothing(
    owned: Mailbox, monkeypatch: pytest.MonkeyPatch, mailoutbox: list[Any]
) -> None:
    monkeypatch.setattr(onboard, "PART", 2)
    owned.receive_many(5)
    asked = []

    def limited(*args: Any) -> Any:
        asked.append(args)
        if len(asked) == 2:
            raise GmailRateLimited(status=429, retry_after=60)
        return ingest_page(*args)

    monkeypatch.setattr(onboard, "ingest_page", limited)
    done = process(owned)
    assert done.status == "completed", done.last_error
    assert (done.result["messages"], done.result["partial"], done.result["remaining"]) == (
        2,
        True,
        3,
    )
    assert "3 more messages will follow" in mailoutbox[0].body
    assert owned.reload().held_until is not None
    left = {job.payload["gmail_message_id"] for job in jobs("ingest.gmail")}
    read = {message.gmail_message_id for message in owned.messages()}
    assert (len(left), left & read) == (3, set())


def test_a_repeated_attempt_tells_once(owned: Mailbox, mailoutbox: list[Any]) -> None:
    owned.receive_many(2)
    assert_idempotent("email_processing", {"connection_id": owned.account.pk}, firm=owned.firm)
    assert len(mailoutbox) == 1


def test_an_address_that_is_refused_for_good_keeps_no_other_channel_silent(
    owned: Mailbox, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise Fatal("the mail server refused every recipient (550)")

    monkeypatch.setattr(onboard, "send_email", refused)
    settings.WEBHOOK_PRIVATE_HOSTS = frozenset({"127.0.0.1"})
    owned.receive_many(2)
    with receiver() as discord:
        owner = owned.account.owner_id
        assert owner is not None
        change_preference(owned.firm.pk, owner, discord_webhook=discord.url)
        done = process(owned)
    assert done.status == "dlq"
    assert "Mailroom has read 2 messages" in discord.received[0].json["content"]
