"""Two syncs of one mailbox at once: a worker that was taken for dead goes on beside the next."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from mail.errors import MailboxWaits
from mail.gmail.client import GmailClient
from mail.services.syncing.sync import sync_mailbox
from tests.mail.mail_kit import Mailbox
from tests.mail.mirror_machine import check_equal, run_ingests

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-04", "J-14")]


def synced(mailbox: Mailbox) -> str:
    """Let a message arrive and be stored; return Gmail's id."""
    arrived = mailbox.receive()
    sync_mailbox(mailbox.account, mailbox.gmail)
    run_ingests(mailbox)
    return arrived


def beside_another(mailbox: Mailbox, arrived: str, name: str, *, of: str = "") -> GmailClient:
    """Return a client of Gmail whose answer to the call `name` (about the text `of`) comes late.

    Before the answer, the person removes the star from the message, and another sync reads that.
    """
    gmail = mailbox.gmail
    call = getattr(gmail, name)

    def late(*args: Any, **options: Any) -> Any:
        answer = call(*args, **options)
        if of in args[0]:
            setattr(gmail, name, call)
            mailbox.gmail.modify_message(arrived, remove=["STARRED"])
            sync_mailbox(mailbox.account, mailbox.gmail)
        return answer

    setattr(gmail, name, late)
    return gmail


def test_history_that_another_sync_has_read_is_not_applied_again(mailbox: Mailbox) -> None:
    arrived = synced(mailbox)
    mailbox.gmail.modify_message(arrived, add=["STARRED"])
    gmail = beside_another(mailbox, arrived, "history")
    with suppress(MailboxWaits):
        sync_mailbox(mailbox.account, gmail)
    check_equal(mailbox)


def test_a_comparison_is_not_applied_once_another_sync_has_read_on(mailbox: Mailbox) -> None:
    arrived = synced(mailbox)
    mailbox.gmail.modify_message(arrived, add=["STARRED"])
    mailbox.simulator.expire_history(mailbox.account.address)
    gmail = beside_another(mailbox, arrived, "list_messages", of="newer_than:")
    sync_mailbox(mailbox.account, gmail)
    check_equal(mailbox)


def test_pages_of_one_sync_do_not_stop_it(mailbox: Mailbox) -> None:
    arrived = synced(mailbox)
    for _ in range(60):
        mailbox.gmail.modify_message(arrived, add=["STARRED"])
        mailbox.gmail.modify_message(arrived, remove=["STARRED"])
    mailbox.gmail.modify_message(arrived, add=["IMPORTANT"])
    report = sync_mailbox(mailbox.account, mailbox.gmail)
    assert report.pages > 1
    check_equal(mailbox)


def test_a_page_without_changes_is_not_the_last(mailbox: Mailbox) -> None:
    arrived = synced(mailbox)
    mailbox.gmail.modify_message(arrived, add=["STARRED"])
    gmail = mailbox.gmail
    call = gmail.history

    def empty_at_first(start: str, page_token: str | None = None) -> Any:
        if page_token is None:
            return {"historyId": start, "nextPageToken": "more"}
        return call(start)

    setattr(gmail, "history", empty_at_first)  # noqa: B010 - mypy refuses to assign a method
    assert sync_mailbox(mailbox.account, gmail).pages == 2
    check_equal(mailbox)
