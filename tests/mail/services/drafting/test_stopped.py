"""A switch of the mailbox while a draft is composed applies to that draft, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mail.labels import LabelKey
from mail.llm.base import Category
from mail.models import Decision, DecisionSource, MailAccount
from mail.services.mailboxes.connect_account import disconnect_account
from mail.services.mailboxes.modes import (
    SUGGESTS_ONLY,
    pause_mailbox,
    resume_writing,
    suggest_only,
)
from tests.mail.draft_kit import (
    asked,
    begin_draft,
    finished,
    give_label,
    in_gmail,
    listed,
    order,
    prepared,
    synced,
    the_thread,
    versions,
    while_composing,
)
from tests.mail.mail_kit import Mailbox, drain, jobs, stored, without_drafts
from tests.queue_kit import later

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-19", "M-24")]

Step = Callable[[Mailbox], object]


def decided(mailbox: Mailbox) -> None:
    """Let a question arrive and be drafted."""
    asked(mailbox)


def noted(mailbox: Mailbox) -> None:
    """Let the person write notes, and ask for a draft of them."""
    arrived = asked(mailbox, "For your information: we are moving.")
    begin_draft(mailbox, arrived, "Say that we close in August.")
    give_label(mailbox, arrived, LabelKey.NEEDS_RESPONSE)
    synced(mailbox)


def reworked(mailbox: Mailbox) -> None:
    """Ask for a rework."""
    order(mailbox, "Shorter, please.")
    give_label(mailbox, mailbox.messages()[0].gmail_message_id, LabelKey.REWORK)
    synced(mailbox)


WAYS: dict[str, tuple[Step, Step]] = {
    "draft": (lambda mailbox: None, decided),
    "manual_draft": (lambda mailbox: None, noted),
    "rework": (decided, reworked),
}
STOPS: dict[str, Callable[[MailAccount], object]] = {
    "pause": pause_mailbox,
    "suggest only": suggest_only,
    "disconnect": lambda account: disconnect_account(account, keep_days=30),
}


def stop_while_composing(
    mailbox: Mailbox,
    monkeypatch: pytest.MonkeyPatch,
    job_type: str,
    stop: Callable[[MailAccount], object],
) -> tuple[list[object], list[object]]:
    """Stop the mailbox while a job of this type composes; return the drafts before and after."""
    before, begin = WAYS[job_type]
    before(prepared(mailbox))
    seen: list[list[object]] = []

    def look_and_stop() -> None:
        seen.append(listed(mailbox))
        stop(mailbox.reload())

    while_composing(monkeypatch, look_and_stop)
    begin(mailbox)
    return seen[0], listed(mailbox)


@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS)
@pytest.mark.parametrize("job_type", WAYS)
def test_nothing_is_written_or_trashed_once_the_mailbox_is_stopped(
    mailbox: Mailbox,
    monkeypatch: pytest.MonkeyPatch,
    job_type: str,
    stop: Callable[[MailAccount], object],
) -> None:
    before, after = stop_while_composing(mailbox, monkeypatch, job_type, stop)
    assert after == before
    assert [status for _, status, _ in versions()] == (["ready"] if job_type == "rework" else [])


@pytest.mark.parametrize("job_type", WAYS)
def test_a_draft_that_a_pause_stopped_is_written_once_after_it(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, job_type: str
) -> None:
    stop_while_composing(mailbox, monkeypatch, job_type, pause_mailbox)
    (waiting,) = jobs(job_type)
    with later(3600):
        drain()
        assert [job.pk for job in jobs(job_type)] == [waiting.pk]
        resume_writing(mailbox.reload())
    with later(7200):
        drain()
    assert len(in_gmail(mailbox)) == 1
    assert versions()[-1][1] == "ready"
    assert the_thread().status == "drafted"


@pytest.mark.parametrize("job_type", WAYS)
def test_where_mailroom_only_suggests_by_then_the_job_says_so(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, job_type: str
) -> None:
    stop_while_composing(mailbox, monkeypatch, job_type, suggest_only)
    assert finished(job_type)[-1] == {"skipped": True, "reason": SUGGESTS_ONLY}


def test_a_job_of_a_mailbox_that_was_disconnected_meanwhile_is_canceled(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_while_composing(mailbox, monkeypatch, "draft", STOPS["disconnect"])
    assert [job.status for job in jobs("draft", live=False)] == ["canceled"]


def test_what_the_person_said_by_the_label_is_kept_where_no_draft_may_be_written(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_drafts(mailbox)
    stop_while_composing(mailbox, monkeypatch, "manual_draft", suggest_only)
    assert the_thread().classification == Category.NEEDS_RESPONSE
    assert stored(Decision)[-1].source == DecisionSource.PERSON
