"""A draft that one attempt has begun, and that a later attempt finds unwanted or unfinished."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mail.gmail.client import GmailClient
from mail.gmail.simulator.faults import LOST_ANSWER, Fault
from mail.labels import LabelKey
from mail.llm.base import Category
from mail.models import Draft, MailThread, ThreadStatus
from mail.services.mailboxes.modes import activate, suggest_only
from mail.services.syncing.sync import sync_mailbox
from tenants.scope import firm_scope
from tests.mail.draft_kit import (
    QUESTION,
    asked,
    draft_by_hand,
    edit,
    finished,
    give_label,
    in_gmail,
    listed,
    prepared,
    synced,
    the_thread,
    versions,
    while_composing,
)
from tests.mail.mail_kit import OWNER, Mailbox, drain_later, jobs, letter, stored
from tests.mail.mirror_machine import delete
from tests.mail.services.drafting.test_recipients import inquiry

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-19")]


def asked_for_and_lost(mailbox: Mailbox, **more: str) -> None:
    """Let the person ask for a draft, and lose Gmail's answer to its creation."""
    arrived = asked(prepared(mailbox), "The parcel left today.", **more)
    give_label(mailbox, arrived, LabelKey.NEEDS_RESPONSE)
    mailbox.simulator.order_fault(LOST_ANSWER, method="drafts.create")
    synced(mailbox)
    assert versions() == [("manual", "writing", 0)]
    assert len(listed(mailbox)) == 1


def answer_later(mailbox: Mailbox) -> None:
    """Let the person answer without the draft, minutes later."""
    answer = letter("Re: Price list", "Here it is.", sender=OWNER, to="anna@customer.example",
                    reply_to_id="<q1@customer.example>")  # fmt: skip
    mailbox.receive(answer, labels=("SENT",), at=datetime.now(UTC) + timedelta(minutes=2))
    synced(mailbox)


def test_a_draft_that_was_begun_goes_from_a_thread_of_its_own(mailbox: Mailbox) -> None:
    # The mail has no Message-ID to which the draft could refer.
    asked_for_and_lost(mailbox, message_id="")
    delete(mailbox, mailbox.messages()[0].gmail_message_id)
    synced(mailbox)
    drain_later()
    assert listed(mailbox) == []


def test_only_drafts_that_are_not_known_are_read_to_find_it(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(mailbox)
    for number in range(3):
        asked(mailbox, message_id=f"<known{number}@customer.example>")
    mailbox.simulator.order_fault(LOST_ANSWER, method="drafts.create")
    asked(mailbox, message_id="")
    (lost, *known) = (one["message"]["id"] for one in listed(mailbox))
    read: list[str] = []
    get_messages = GmailClient.get_messages

    def counted(gmail: GmailClient, ids: list[str], fmt: Any = "full") -> Any:
        read.extend(ids)
        return get_messages(gmail, ids, fmt)

    monkeypatch.setattr(GmailClient, "get_messages", counted)
    drain_later()
    assert (len(known), read) == (3, [lost])
    assert {row.status for row in stored(Draft)} == {"ready"}
    assert len(listed(mailbox)) == 4


def test_a_draft_that_was_begun_goes_where_the_person_has_answered_since(mailbox: Mailbox) -> None:
    asked_for_and_lost(mailbox)
    answer_later(mailbox)
    drain_later()
    assert versions() == [("manual", "canceled", 0)]
    assert listed(mailbox) == []


def test_a_begun_draft_that_the_person_has_edited_stays(mailbox: Mailbox) -> None:
    asked_for_and_lost(mailbox)
    edit(mailbox, "My own words.")
    answer_later(mailbox)
    drain_later()
    assert versions() == [("manual", "canceled", 0)]
    assert [one.get_content().strip() for one in in_gmail(mailbox)] == ["My own words."]


def test_a_draft_that_was_begun_goes_where_its_thread_waits_for_none_any_more(
    mailbox: Mailbox,
) -> None:
    mailbox.simulator.order_fault(LOST_ANSWER, method="drafts.create")
    asked(prepared(mailbox))
    assert versions() == [("automatic", "writing", 0)]
    with firm_scope(mailbox.firm):
        MailThread.objects.update(classification=Category.FYI, status=ThreadStatus.SKIPPED)
    drain_later()
    assert versions() == [("automatic", "canceled", 0)]
    assert listed(mailbox) == []


def test_a_draft_for_another_visitor_is_written_though_its_first_attempt_only_took_the_old_one(
    mailbox: Mailbox,
) -> None:
    vera = inquiry(prepared(mailbox), "Vera", QUESTION, minutes_ago=9)
    inquiry(mailbox, "Eve", QUESTION)
    synced(mailbox)
    give_label(mailbox, vera, LabelKey.NEEDS_RESPONSE)
    mailbox.simulator.order_fault(Fault(503), method="drafts.create")
    synced(mailbox)
    assert [status for _, status, _ in versions()] == ["withdrawn", "writing"]
    drain_later()
    assert [draft["To"] for draft in in_gmail(mailbox)] == ["Vera <vera@visitor.example>"]
    assert the_thread().status == "drafted"


def delete_for_ever(mailbox: Mailbox, arrived: str) -> None:
    delete(mailbox, arrived)
    sync_mailbox(mailbox.account, mailbox.gmail)


def test_a_draft_goes_whose_mail_is_deleted_for_ever_as_it_is_written(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = GmailClient.create_draft

    def create_late(self: GmailClient, *args: Any) -> Any:
        made = create(self, *args)
        (message,) = mailbox.messages()
        delete_for_ever(mailbox, message.gmail_message_id)
        return made

    monkeypatch.setattr(GmailClient, "create_draft", create_late)
    asked(prepared(mailbox))
    assert finished("draft") == [
        {"skipped": True, "reason": "The conversation is no longer in Gmail"}
    ]
    assert listed(mailbox) == []


def test_none_is_written_to_mail_that_is_deleted_for_ever_as_it_is_composed(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(mailbox)
    arrived = mailbox.receive(letter())
    while_composing(monkeypatch, lambda: delete_for_ever(mailbox, arrived))
    synced(mailbox)
    (job,) = jobs("draft", live=False)
    assert (job.status, job.attempts) == ("canceled", 1)
    assert listed(mailbox) == []


def test_a_draft_goes_whose_mail_is_deleted_for_ever(mailbox: Mailbox) -> None:
    arrived = asked(prepared(mailbox))
    delete(mailbox, arrived)
    synced(mailbox)
    assert listed(mailbox) == []
    assert finished("cleanup") == [{"taken_back": 1}]


def test_an_edited_draft_stays_when_its_mail_is_deleted_for_ever(mailbox: Mailbox) -> None:
    arrived = asked(prepared(mailbox))
    edit(mailbox, "My own words.")
    delete(mailbox, arrived)
    synced(mailbox)
    assert len(listed(mailbox)) == 1


def test_a_draft_stays_when_its_mail_is_deleted_where_mailroom_suggests_only(
    mailbox: Mailbox,
) -> None:
    arrived = asked(prepared(mailbox))
    suggest_only(mailbox.account)
    delete(mailbox, arrived)
    synced(mailbox)
    assert len(listed(mailbox)) == 1


def test_a_draft_that_was_begun_goes_with_its_mail(mailbox: Mailbox) -> None:
    mailbox.simulator.order_fault(LOST_ANSWER, method="drafts.create")
    arrived = asked(prepared(mailbox))
    assert versions() == [("automatic", "writing", 0)]
    delete(mailbox, arrived)
    synced(mailbox)
    drain_later()
    assert listed(mailbox) == []


def test_a_thread_is_no_longer_drafted_whose_answered_message_is_deleted(mailbox: Mailbox) -> None:
    asked(prepared(mailbox), "The parcel left today.")
    again = letter("Re: Price list", QUESTION, reply_to_id="<q1@customer.example>")
    question = mailbox.receive(again)
    synced(mailbox)
    assert the_thread().status == "drafted"
    delete(mailbox, question)
    synced(mailbox)
    assert listed(mailbox) == []
    assert the_thread().status == "skipped"


def test_one_of_the_same_words_that_is_written_since_stays(mailbox: Mailbox) -> None:
    first = asked(prepared(mailbox))
    again = letter("Price list", QUESTION, reply_to_id="<q1@customer.example>")
    second = mailbox.receive(again)
    synced(mailbox)
    delete(mailbox, second)
    mailbox.simulator.order_fault(LOST_ANSWER, method="messages.trash")
    synced(mailbox)
    assert listed(mailbox) == []
    draft_by_hand(mailbox, first)
    assert len({draft.content_hash for draft in stored(Draft)}) == 1
    drain_later()
    assert finished("cleanup") == [{"taken_back": 0}]
    assert len(listed(mailbox)) == 1
    assert the_thread().status == "drafted"


def test_a_draft_that_another_job_began_goes_where_none_is_wanted(mailbox: Mailbox) -> None:
    mailbox.simulator.order_fault(LOST_ANSWER, method="drafts.create")
    arrived = asked(prepared(mailbox))
    suggest_only(mailbox.account)
    drain_later()
    mailbox.gmail.trash(arrived)
    synced(mailbox)
    assert versions() == [("automatic", "writing", 0)]
    activate(mailbox.account)
    drain_later()
    assert versions() == [("automatic", "canceled", 0)]
    assert listed(mailbox) == []


@pytest.mark.parametrize("label", ["TRASH", "SPAM"])
def test_a_draft_whose_mail_was_thrown_away_while_mailroom_only_suggested_goes_later(
    mailbox: Mailbox, label: str
) -> None:
    arrived = asked(prepared(mailbox))
    suggest_only(mailbox.account)
    mailbox.gmail.modify_message(arrived, add=[label], remove=["INBOX"])
    synced(mailbox)
    assert len(listed(mailbox)) == 1
    activate(mailbox.account)
    drain_later()
    assert listed(mailbox) == []
    assert versions() == [("automatic", "withdrawn", 0)]
