"""Labels that the person gave to a thread before Mailroom could act on them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mail.labels import LabelKey
from mail.services.mailboxes.modes import pause_mailbox, resume_writing
from tests.mail.draft_kit import (
    QUESTION,
    answer_by_hand,
    asked,
    finished,
    give_label,
    in_gmail,
    prepared,
    state_labels,
    synced,
    the_thread,
    versions,
)
from tests.mail.mail_kit import OWNER, Mailbox, drain_later, letter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-19")]


def done_while_paused(mailbox: Mailbox) -> str:
    """Let the person mark a thread done in a paused mailbox; return Gmail's id of its message."""
    arrived = asked(prepared(mailbox), text="The parcel left today.")
    pause_mailbox(mailbox.account)
    give_label(mailbox, arrived, LabelKey.DONE)
    synced(mailbox)
    assert "INBOX" in mailbox.labels(arrived)
    return arrived


def resumed(mailbox: Mailbox) -> None:
    resume_writing(mailbox.account)
    drain_later()


def answered(mailbox: Mailbox) -> str:
    """Let a question arrive in the thread; return Gmail's id."""
    again = letter("Re: Price list", QUESTION, reply_to_id="<q1@customer.example>")
    arrived = mailbox.receive(again)
    synced(mailbox)
    return arrived


def test_what_came_since_stays_in_the_inbox_and_is_answered(mailbox: Mailbox) -> None:
    arrived = done_while_paused(mailbox)
    question = answered(mailbox)
    resumed(mailbox)
    assert "INBOX" not in mailbox.labels(arrived)
    assert "INBOX" in mailbox.labels(question)
    assert the_thread().status == "drafted"
    assert versions() == [("automatic", "ready", 0)]
    assert len(in_gmail(mailbox)) == 1
    assert LabelKey.OUTBOX in state_labels(mailbox, question)


def test_no_draft_is_made_of_what_the_person_has_answered_since(mailbox: Mailbox) -> None:
    arrived = asked(prepared(mailbox), text="The parcel left today.")
    pause_mailbox(mailbox.account)
    give_label(mailbox, arrived, LabelKey.NEEDS_RESPONSE)
    synced(mailbox)
    answer = letter("Re: Price list", "Thank you. When will it arrive?", sender=OWNER,
                    to="anna@customer.example", reply_to_id="<q1@customer.example>")  # fmt: skip
    mailbox.receive(answer, labels=("SENT",), at=datetime.now(UTC) + timedelta(minutes=2))
    synced(mailbox)
    resumed(mailbox)
    assert in_gmail(mailbox) == []
    assert [one["reason"] for one in finished("manual_draft")] == ["The person has answered since"]
    assert the_thread().classification == "waiting"
    assert state_labels(mailbox, arrived) == {LabelKey.WAITING}


def test_one_is_made_of_what_was_answered_before_the_person_asked(mailbox: Mailbox) -> None:
    arrived = asked(prepared(mailbox), text="The parcel left today.")
    answer_by_hand(mailbox)
    synced(mailbox)
    give_label(mailbox, arrived, LabelKey.NEEDS_RESPONSE)
    synced(mailbox)
    assert versions() == [("manual", "ready", 0)]


def test_what_came_since_is_done_with_where_it_is_marked_itself(mailbox: Mailbox) -> None:
    """Gmail labels all messages of a conversation, also those that Mailroom has not read yet."""
    arrived = asked(prepared(mailbox), text="The parcel left today.")
    pause_mailbox(mailbox.account)
    again = letter("Re: Price list", QUESTION, reply_to_id="<q1@customer.example>")
    question = mailbox.receive(again)
    for one in (arrived, question):
        give_label(mailbox, one, LabelKey.DONE)
    synced(mailbox)
    resumed(mailbox)
    assert "INBOX" not in mailbox.labels(question)
    assert the_thread().status == "archived"


def test_it_is_done_once_the_person_says_so_again(mailbox: Mailbox) -> None:
    done_while_paused(mailbox)
    question = answered(mailbox)
    give_label(mailbox, question, LabelKey.DONE)
    synced(mailbox)
    resumed(mailbox)
    assert "INBOX" not in mailbox.labels(question)
    assert the_thread().status == "archived"
