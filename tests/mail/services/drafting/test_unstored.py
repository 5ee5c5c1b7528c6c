"""Mailroom's labels that the person gives to mail that is not stored yet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jobs.errors import PayloadInvalid
from jobs.queue import enqueue
from jobs.testing import run_job
from mail.labels import LabelKey
from mail.llm.base import Category
from mail.models import Decision, Draft, DraftStatus, MailAccount, Rule
from mail.services.syncing.sync import sync_mailbox
from tenants.scope import firm_scope
from tests.mail.draft_kit import (
    QUESTION,
    give_label,
    listed,
    prepared,
    state_labels,
    synced,
    the_thread,
)
from tests.mail.mail_kit import Mailbox, jobs, letter, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-09", "M-19")]

CORRECTIONS = [category.label for category in Category if category != Category.NEEDS_RESPONSE]


def given(mailbox: Mailbox, *orders: LabelKey, labels: tuple[str, ...] = ("INBOX",)) -> str:
    """Let a question arrive and get these labels before Mailroom reads it; return Gmail's id."""
    arrived = mailbox.receive(letter("Price list", QUESTION), labels=labels)
    for order in orders:
        give_label(mailbox, arrived, order)
    synced(mailbox)
    return arrived


@pytest.mark.parametrize("order", CORRECTIONS)
def test_a_label_on_old_mail_is_the_persons_decision(mailbox: Mailbox, order: LabelKey) -> None:
    prepared(mailbox)
    old = given(mailbox, labels=())
    assert mailbox.messages() == []
    give_label(mailbox, old, order)
    synced(mailbox)
    assert [(one.source, one.category) for one in stored(Decision)] == [("person", order.value)]
    assert the_thread().classification == order.value
    assert state_labels(mailbox, old) == {order}


def test_a_label_on_a_conversation_is_one_correction_however_its_mail_is_stored(
    mailbox: Mailbox,
) -> None:
    prepared(mailbox)
    for number in range(3):
        at = datetime.now(UTC) - timedelta(days=3, minutes=-number)
        header = "reply_to_id" if number else "message_id"
        mail = letter(at=at, **{header: "<q1@customer.example>"})
        give_label(mailbox, mailbox.receive(mail, labels=(), at=at), LabelKey.FYI)
    sync_mailbox(mailbox.account, mailbox.gmail)
    for job in (waiting := jobs("manual_draft")):
        run_job(job)
        while follows := [one for one in jobs() if one not in waiting]:
            run_job(follows[0])
    (proposed,) = stored(Rule)
    assert (len(mailbox.messages()), proposed.corrections) == (3, 1)
    assert the_thread().classification == Category.FYI


def test_a_label_on_mail_that_mailroom_had_not_read_yet_is_a_correction(mailbox: Mailbox) -> None:
    arrived = given(prepared(mailbox), LabelKey.FYI)
    assert stored(Decision)[-1].source == "person"
    assert the_thread().classification == Category.FYI
    assert state_labels(mailbox, arrived) == {LabelKey.FYI}
    assert listed(mailbox) == []
    assert [one for one in stored(Draft) if one.status == DraftStatus.READY] == []


@pytest.mark.req("M-04")
@pytest.mark.parametrize("order", [LabelKey.DONE, LabelKey.NEEDS_RESPONSE, LabelKey.FYI])
def test_a_label_that_was_given_while_there_was_no_history_is_obeyed(
    mailbox: Mailbox, order: LabelKey
) -> None:
    given(prepared(mailbox))
    arrived = mailbox.receive(letter("The parcel", QUESTION))
    give_label(mailbox, arrived, order)
    mailbox.simulator.expire_history(mailbox.account.address)
    synced(mailbox)
    kept = LabelKey.OUTBOX if order == LabelKey.NEEDS_RESPONSE else order
    assert state_labels(mailbox, arrived) == {kept}
    assert ("INBOX" in mailbox.labels(arrived)) == (order != LabelKey.DONE)
    message = mailbox.message(arrived)
    drafted = [one for one in stored(Draft) if one.message_id == message.pk]
    assert {(one.origin, one.status) for one in drafted if one.status == "ready"} == (
        {("manual", "ready")} if order == LabelKey.NEEDS_RESPONSE else set()
    )


@pytest.mark.req("M-04")
def test_labels_on_mail_that_was_deleted_here_are_no_orders(mailbox: Mailbox) -> None:
    """They may be Mailroom's own, from before the deletion: no sync has ended since."""
    given(prepared(mailbox))
    arrived = mailbox.receive(letter("The parcel", QUESTION))
    give_label(mailbox, arrived, LabelKey.NEEDS_RESPONSE)
    mailbox.simulator.expire_history(mailbox.account.address)
    with firm_scope(mailbox.account.firm_id):
        MailAccount.objects.update(last_sync_at=None)
    synced(mailbox)
    message = mailbox.message(arrived)
    drafted = [one for one in stored(Draft) if one.message_id == message.pk]
    assert [one.origin for one in drafted] == ["automatic"]


def test_what_is_marked_done_before_it_is_read_is_done(mailbox: Mailbox) -> None:
    arrived = given(prepared(mailbox), LabelKey.FYI, LabelKey.DONE)
    assert the_thread().status == "archived"
    assert state_labels(mailbox, arrived) == {LabelKey.DONE}
    assert "INBOX" not in mailbox.labels(arrived)
    assert listed(mailbox) == []


def test_a_rework_of_what_has_no_draft_is_no_order(mailbox: Mailbox) -> None:
    prepared(mailbox)
    given(mailbox, LabelKey.REWORK, labels=())
    assert mailbox.messages() == []


@pytest.mark.parametrize("label", ["rework", "outbox", "parent"])
def test_a_job_obeys_no_label_that_asks_for_nothing(mailbox: Mailbox, label: str) -> None:
    about = {"account_id": mailbox.account.pk, "gmail_message_id": "18c0ffee"}
    with firm_scope(mailbox.firm), pytest.raises(PayloadInvalid):
        enqueue("manual_draft", {**about, "label": label})
    assert jobs("manual_draft") == []
