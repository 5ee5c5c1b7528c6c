"""A thread in the trash or among spam gets no draft, keeps none, and waits for nobody."""

from __future__ import annotations

import pytest

from jobs.testing import run_job
from mail.models import Decision
from mail.services.mailboxes.briefing import briefing_of
from mail.services.queueing import request_sync
from tenants.scope import firm_scope
from tests.mail.draft_kit import (
    QUESTION,
    asked,
    edit,
    listed,
    prepared,
    synced,
    the_thread,
    versions,
)
from tests.mail.mail_kit import Mailbox, drain, jobs, letter, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-19", "M-09")]


def discard(mailbox: Mailbox, arrived: str, label: str) -> None:
    """Let the person move the message to the trash or to spam."""
    if label == "TRASH":
        mailbox.gmail.trash(arrived)
    else:
        mailbox.gmail.modify_message(arrived, add=[label], remove=["INBOX"])


def arrive(mailbox: Mailbox, *job_types: str) -> str:
    """Let a question arrive, and run jobs of these types."""
    arrived = mailbox.receive(letter("Price list", QUESTION, message_id="<q1@customer.example>"))
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account)
    for job_type in job_types:
        for job in jobs(job_type):
            run_job(job)
    return arrived


def synced_first(mailbox: Mailbox) -> None:
    """Ask for a sync, and run it before any other job."""
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account)
    for job in jobs("sync"):
        run_job(job)
    drain()


@pytest.mark.parametrize("label", ["TRASH", "SPAM"])
@pytest.mark.parametrize("done", [("sync", "ingest.gmail"), ("sync", "ingest.gmail", "classify")])
def test_what_is_discarded_first_is_not_judged_or_drafted(
    mailbox: Mailbox, label: str, done: tuple[str, ...]
) -> None:
    prepared(mailbox)
    discard(mailbox, arrive(mailbox, *done), label)
    synced_first(mailbox)
    assert (versions(), listed(mailbox)) == ([], [])
    assert len(stored(Decision)) == done.count("classify")


@pytest.mark.req("M-22")
@pytest.mark.parametrize("label", ["TRASH", "SPAM"])
def test_the_draft_for_what_is_discarded_is_withdrawn(mailbox: Mailbox, label: str) -> None:
    arrived = asked(prepared(mailbox))
    with firm_scope(mailbox.firm):
        assert briefing_of(mailbox.account).for_you.count == 1
    discard(mailbox, arrived, label)
    synced(mailbox)
    assert (versions(), listed(mailbox)) == ([("automatic", "withdrawn", 0)], [])
    assert the_thread().status == "skipped"
    with firm_scope(mailbox.firm):
        briefing = briefing_of(mailbox.account)
    assert (briefing.for_you.count, sum(briefing.categories.values())) == (0, 0)


def test_an_edited_draft_for_what_is_discarded_stays(mailbox: Mailbox) -> None:
    arrived = asked(prepared(mailbox))
    edit(mailbox, "My own words.")
    discard(mailbox, arrived, "TRASH")
    synced(mailbox)
    assert (versions(), len(listed(mailbox))) == ([("automatic", "ready", 0)], 1)
