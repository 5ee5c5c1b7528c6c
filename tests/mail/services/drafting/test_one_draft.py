"""Mailroom writes no second draft into a thread that holds one which is not its own to replace."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mail.labels import LabelKey
from mail.models import Draft
from mail.services.drafting import write_draft
from mail.services.drafting.task import DraftTask
from tests.mail.draft_kit import (
    MARK,
    QUESTION,
    asked,
    begin_draft,
    edit,
    give_label,
    in_gmail,
    listed,
    prepared,
    synced,
    the_thread,
    versions,
)
from tests.mail.mail_kit import Mailbox, letter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-19")]


def ask_again(mailbox: Mailbox) -> None:
    later = datetime.now(UTC) + timedelta(seconds=2)
    text = "Well? Could you send it?"
    mailbox.receive(letter("Re: Price list", text, reply_to_id="<q1@customer.example>", at=later))
    synced(mailbox)


def test_a_draft_begun_while_the_text_is_composed_stays_alone(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    compose = write_draft.compose_draft

    def slow(task: DraftTask) -> Draft:
        begin_draft(mailbox, task.message.gmail_message_id, "Dear Anna,")
        return compose(task)

    monkeypatch.setattr(write_draft, "compose_draft", slow)
    asked(prepared(mailbox))
    (draft,) = in_gmail(mailbox)
    assert draft.get_content().strip() == "Dear Anna,"
    assert versions() == [("automatic", "canceled", 0)]
    assert the_thread().status == "skipped"


def test_a_newer_message_makes_no_draft_beside_one_that_a_rework_kept(mailbox: Mailbox) -> None:
    arrived = asked(prepared(mailbox))
    edit(mailbox, f"Shorter, please.\n{MARK}\nMy own words.")
    give_label(mailbox, arrived, LabelKey.REWORK)
    synced(mailbox)
    kept = listed(mailbox)
    ask_again(mailbox)
    assert listed(mailbox) == kept
    assert [status for _, status, _ in versions()] == ["kept", "ready"]


def answered_and_deleted(mailbox: Mailbox, *, edited: bool) -> list[dict[str, Any]]:
    """Let a question be drafted, and deleted for good; return the drafts that Gmail has then."""
    prepared(mailbox)
    before = datetime.now(UTC) - timedelta(minutes=5)
    mailbox.receive(letter("Price list", "First.", message_id="<q1@customer.example>", at=before))
    second = letter("Re: Price list", QUESTION, reply_to_id="<q1@customer.example>")
    arrived = mailbox.receive(second)
    synced(mailbox)
    assert len(listed(mailbox)) == 1
    if edited:
        edit(mailbox, "My own words.")
    mailbox.gmail.delete_message(arrived)
    synced(mailbox)
    assert versions() == []
    return listed(mailbox)


def test_no_draft_is_written_beside_an_edited_one_whose_message_was_deleted_for_good(
    mailbox: Mailbox,
) -> None:
    orphan = answered_and_deleted(mailbox, edited=True)
    assert len(orphan) == 1
    ask_again(mailbox)
    assert listed(mailbox) == orphan
    assert versions() == []


def test_one_that_nobody_edited_makes_room_for_the_next(mailbox: Mailbox) -> None:
    assert answered_and_deleted(mailbox, edited=False) == []
    ask_again(mailbox)
    assert len(listed(mailbox)) == 1
    assert [status for _, status, _ in versions()] == ["ready"]
