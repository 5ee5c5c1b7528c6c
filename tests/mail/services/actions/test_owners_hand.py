"""What the owner does in Gmail after an action was asked for counts more than the action."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from unittest.mock import patch

import pytest

from jobs.engine.clock import database_now
from jobs.testing import NotRunnable, frozen_time, run_job
from mail.gmail.client import GmailClient
from mail.gmail.simulator.faults import LOST_ANSWER, LOST_REQUEST, Fault
from mail.models import Action, Approval, MailAccount
from mail.services.actions.actions import fail_action, request_action
from mail.services.approvals.approvals import approve
from mail.services.mailboxes.modes import pause_mailbox, resume_writing
from mail.services.syncing.sync import sync_mailbox
from tenants.scope import firm_scope
from tests.mail.action_kit import ask, ask_undo, current, done, in_gmail, received, run, undone
from tests.mail.approval_kit import person
from tests.mail.mail_kit import Mailbox, jobs, only, stored

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-15")]

INBOX = {"INBOX", "UNREAD"}


@pytest.fixture
def mailbox(mailbox: Mailbox) -> Mailbox:
    """Return the mailbox, read once, so that there is a history to compare with."""
    sync_mailbox(mailbox.account, mailbox.gmail)
    return mailbox


@pytest.fixture
def histories() -> Iterator[list[str]]:
    """Return the history ids from which Gmail's history is read, as it is."""
    starts: list[str] = []
    history = GmailClient.history

    def counted(self: GmailClient, start: str, page_token: str | None = None) -> object:
        starts.append(start)
        return history(self, start, page_token)

    with patch.object(GmailClient, "history", counted):
        yield starts


def arrival(mailbox: Mailbox, *labels: str) -> str:
    """Let a message arrive, and be stored and read up to."""
    arrived = received(mailbox, *labels)
    sync_mailbox(mailbox.account, mailbox.gmail)
    return arrived


def out_and_back(mailbox: Mailbox, arrived: str) -> None:
    in_gmail(mailbox, arrived, remove="INBOX")
    in_gmail(mailbox, arrived, add="INBOX")


def is_paused(mailbox: Mailbox, action: Action) -> None:
    pause_mailbox(mailbox.account)
    with pytest.raises(NotRunnable, match="paused"):
        run(action)
    resume_writing(mailbox.account)
    mailbox.reload()


def is_refused(mailbox: Mailbox, action: Action) -> None:
    mailbox.simulator.order_fault(Fault(status=429), method="messages.modify")
    assert run(action).status == "pending"
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(held_until=None)


def loses_its_request(mailbox: Mailbox, action: Action) -> None:
    mailbox.simulator.order_fault(LOST_REQUEST, method="messages.modify")
    assert run(action).status == "pending"


def is_late(_: Mailbox, __: Action) -> None:
    pass


@pytest.mark.parametrize("waits", [is_paused, is_refused, loses_its_request, is_late])
@pytest.mark.parametrize("read_meanwhile", [False, True])
def test_a_message_put_back_into_the_inbox_before_its_archive_stays_there(
    mailbox: Mailbox, waits: Callable[[Mailbox, Action], None], read_meanwhile: bool
) -> None:
    arrived = arrival(mailbox)
    action = ask(mailbox, arrived, "archive")
    waits(mailbox, action)
    out_and_back(mailbox, arrived)
    if read_meanwhile:
        sync_mailbox(mailbox.account, mailbox.gmail)
    assert run_again(action)["changed"] is False
    assert mailbox.labels(arrived) == INBOX
    assert (current(action).undo_hint or {})["inverse_action"] == "none"


def run_again(action: Action) -> dict[str, object]:
    """Run an attempt of the action's job although it was put off; return its result."""
    with frozen_time(database_now() + timedelta(minutes=10)):
        job = run_job(current(action).job_id)
    assert job.status == "completed", job.last_error
    return dict(job.result)


@pytest.mark.parametrize(
    ("action_type", "labels", "by_hand"),
    [
        ("mark_read", ("INBOX", "UNREAD"), ("remove", "UNREAD")),
        ("mark_unread", ("INBOX",), ("add", "UNREAD")),
        ("star", ("INBOX",), ("add", "STARRED")),
        ("unstar", ("INBOX", "STARRED"), ("remove", "STARRED")),
    ],
)
def test_a_flag_that_the_owner_set_and_took_back_stays_as_it_is(
    mailbox: Mailbox, action_type: str, labels: tuple[str, ...], by_hand: tuple[str, str]
) -> None:
    arrived = arrival(mailbox, *labels)
    action = ask(mailbox, arrived, action_type)
    first, label = by_hand
    for way in (first, "remove" if first == "add" else "add"):
        in_gmail(mailbox, arrived, **{way: label})
    assert run(action).result["changed"] is False
    assert mailbox.labels(arrived) == set(labels)


@pytest.mark.parametrize("how", ["restored", "put into the inbox"])
def test_a_message_that_the_owner_keeps_is_not_thrown_away(mailbox: Mailbox, how: str) -> None:
    arrived = arrival(mailbox)
    action = ask(mailbox, arrived, "trash")
    if how == "restored":
        mailbox.gmail.trash(arrived)
        mailbox.gmail.untrash(arrived)
    else:
        out_and_back(mailbox, arrived)
    before = mailbox.labels(arrived)
    assert run(action).result["changed"] is False
    assert mailbox.labels(arrived) == before


def test_what_the_store_knew_when_it_was_asked_for_is_no_reason(mailbox: Mailbox) -> None:
    arrived = arrival(mailbox)
    out_and_back(mailbox, arrived)
    sync_mailbox(mailbox.account, mailbox.gmail)
    done(mailbox, arrived, "archive")
    assert mailbox.labels(arrived) == {"UNREAD"}


def test_an_approval_is_newer_than_what_the_owner_did_before(mailbox: Mailbox) -> None:
    arrived = arrival(mailbox)
    with firm_scope(mailbox.firm):
        action = request_action(mailbox.message(arrived), "archive", needs_approval=True)
    out_and_back(mailbox, arrived)
    approve(only(stored(Approval)), by=person(mailbox))
    assert run(action).result["changed"] is True
    assert mailbox.labels(arrived) == {"UNREAD"}


def test_our_own_changes_are_nobodys_hand(mailbox: Mailbox) -> None:
    arrived = arrival(mailbox)
    actions = [ask(mailbox, arrived, one) for one in ("star", "unstar", "star", "unstar", "star")]
    for action in actions:
        assert run(action).result["changed"] is True
    assert "STARRED" in mailbox.labels(arrived)
    archived = done(mailbox, arrived, "archive")
    undone(mailbox, archived)
    done(mailbox, arrived, "snooze", amount=1, units="hours")
    wake = only(jobs("unsnooze.gmail"))
    with frozen_time(database_now() + timedelta(hours=2)):
        run_job(wake)
        assert "INBOX" in mailbox.labels(arrived)
        done(mailbox, arrived, "archive")
    assert "INBOX" not in mailbox.labels(arrived)


@pytest.mark.parametrize(
    ("first", "second", "label"), [("star", "unstar", "STARRED"), ("trash", "restore", "TRASH")]
)
def test_an_action_that_failed_after_its_effect_is_nobodys_hand(
    mailbox: Mailbox, first: str, second: str, label: str
) -> None:
    arrived = arrival(mailbox)
    failed = ask(mailbox, arrived, first)
    mailbox.simulator.order_fault(
        LOST_ANSWER, method=f"messages.{'trash' if first == 'trash' else 'modify'}"
    )
    assert run(failed).status == "pending"
    fail_action(mailbox.firm.pk, failed.pk, "given up")
    assert label in mailbox.labels(arrived)

    assert run(ask(mailbox, arrived, second)).result["changed"] is True

    assert label not in mailbox.labels(arrived)


def test_an_undo_that_failed_after_its_effect_is_nobodys_hand(mailbox: Mailbox) -> None:
    arrived = arrival(mailbox)
    undo = ask_undo(mailbox, done(mailbox, arrived, "archive"))
    mailbox.simulator.order_fault(LOST_ANSWER, method="messages.modify")
    assert run(undo).status == "pending"
    fail_action(mailbox.firm.pk, undo.pk, "given up")
    assert "INBOX" in mailbox.labels(arrived)

    assert run(ask(mailbox, arrived, "archive")).result["changed"] is True


def test_a_wake_whose_answer_was_lost_is_nobodys_hand(mailbox: Mailbox) -> None:
    arrived = arrival(mailbox)
    done(mailbox, arrived, "snooze", amount=1, units="hours")
    wake = only(jobs("unsnooze.gmail"))
    with frozen_time(database_now() + timedelta(hours=2)):
        mailbox.simulator.order_fault(LOST_ANSWER, method="messages.modify")
        assert run_job(wake).status == "pending"
        assert "INBOX" in mailbox.labels(arrived)

        assert run(ask(mailbox, arrived, "archive")).result["changed"] is True


def test_a_wake_before_its_snooze_is_known_to_be_done_is_nobodys_hand(mailbox: Mailbox) -> None:
    arrived = arrival(mailbox)
    snooze = ask(mailbox, arrived, "snooze", amount=1, units="minutes")
    mailbox.simulator.order_fault(LOST_ANSWER, method="messages.modify")
    assert run(snooze).status == "pending"
    mailbox.simulator.order_fault(Fault(status=503), method="messages.get", times=3)
    with frozen_time(database_now()) as clock:
        for seconds in (6, 12, 23):
            clock.tick(seconds=seconds)
            assert run(snooze).status == "pending"
        clock.tick(seconds=25)
        run_job(only(jobs("unsnooze.gmail")))
        assert mailbox.labels(arrived) == INBOX
        clock.tick(minutes=1)
        with firm_scope(mailbox.firm):
            # Snoozes end by Python's clock, which `frozen_time` does not move.
            an_hour_ago = snooze.created_at - timedelta(hours=1)
            Action.objects.filter(pk=snooze.pk).update(created_at=an_hour_ago)
        assert run(snooze).status == "completed"

        assert run(ask(mailbox, arrived, "archive")).result["changed"] is True


def test_a_snoozed_message_that_its_owner_put_back_stays_in_the_inbox(mailbox: Mailbox) -> None:
    """The wake finds it in the inbox; so it was not the wake that put it there."""
    arrived = arrival(mailbox)
    done(mailbox, arrived, "snooze", amount=1, units="hours")
    in_gmail(mailbox, arrived, add="INBOX")
    with frozen_time(database_now() + timedelta(hours=2)):
        run_job(only(jobs("unsnooze.gmail")))

        assert run(ask(mailbox, arrived, "archive")).result["changed"] is False

    assert mailbox.labels(arrived) == INBOX


def test_without_history_the_action_is_done(mailbox: Mailbox) -> None:
    arrived = arrival(mailbox)
    action = ask(mailbox, arrived, "archive")
    out_and_back(mailbox, arrived)
    mailbox.simulator.expire_history(mailbox.account.address)
    assert run(action).result["changed"] is True


def test_gmail_is_asked_for_no_history_while_nobody_changed_the_message(
    mailbox: Mailbox, histories: list[str]
) -> None:
    arrived, other = arrival(mailbox), arrival(mailbox, "INBOX", "STARRED")
    histories.clear()
    action = ask(mailbox, arrived, "archive")
    out_and_back(mailbox, other)
    run(action)
    assert histories == []
    assert mailbox.labels(arrived) == {"UNREAD"}
