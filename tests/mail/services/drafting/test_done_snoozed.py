"""Done ends the snoozes of the thread's messages, which do not return to the inbox."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_django import Settings

from jobs.engine.clock import database_now
from jobs.testing import frozen_time, run_job
from mail.gmail.simulator.faults import LOST_ANSWER, Fault
from mail.labels import LABEL_NAMES, LabelKey
from mail.models import Action
from mail.services.mailboxes.modes import pause_mailbox, resume_writing, suggest_only
from tests.mail import action_kit
from tests.mail.draft_kit import asked, give_label, prepared, synced
from tests.mail.mail_kit import Mailbox, drain, jobs, letter, stored, without_drafts

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-17", "M-19")]

AN_HOUR = {"amount": 1, "units": "hours"}
SNOOZED = "Mailroom/Snoozed"
DONE = {"UNREAD", LABEL_NAMES[LabelKey.DONE]}


@pytest.fixture
def arrived(mailbox: Mailbox) -> str:
    """Return a judged message in the inbox, by Gmail's id."""
    without_drafts(prepared(mailbox))
    return asked(mailbox)


def mark_done(mailbox: Mailbox, gmail_message_id: str) -> None:
    give_label(mailbox, gmail_message_id, LabelKey.DONE)
    synced(mailbox)


def before_it_is_tried_again() -> Any:
    """Stop the clock, so that a failed job, which is due seconds later, does not run."""
    return frozen_time(database_now())


def an_hour_later() -> None:
    with frozen_time(database_now()) as clock:
        clock.tick(hours=2)
        drain()


def test_a_snoozed_message_that_is_done_stays_away(mailbox: Mailbox, arrived: str) -> None:
    action_kit.done(mailbox, arrived, "snooze", **AN_HOUR)
    mark_done(mailbox, arrived)
    assert mailbox.labels(arrived) == DONE
    an_hour_later()
    assert mailbox.labels(arrived) == DONE


def test_done_on_another_message_of_the_thread_ends_the_snooze(
    mailbox: Mailbox, arrived: str
) -> None:
    newer = mailbox.receive(letter("Re: Price list", reply_to_id="<q1@customer.example>"))
    synced(mailbox)
    assert mailbox.message(newer).thread_id == mailbox.message(arrived).thread_id
    action_kit.done(mailbox, arrived, "snooze", **AN_HOUR)
    mark_done(mailbox, newer)
    an_hour_later()
    assert (mailbox.labels(arrived), mailbox.labels(newer)) == ({"UNREAD"}, DONE)


def test_a_label_renamed_by_the_settings_is_taken_off(
    mailbox: Mailbox, arrived: str, settings: Settings
) -> None:
    action_kit.done(mailbox, arrived, "snooze", **AN_HOUR)
    settings.SNOOZE_LABEL = "Later"
    mark_done(mailbox, arrived)
    assert mailbox.labels(arrived) == DONE


def test_a_label_renamed_by_the_settings_is_taken_off_where_the_answer_was_lost(
    mailbox: Mailbox, arrived: str, settings: Settings
) -> None:
    mailbox.simulator.order_fault(LOST_ANSWER, method="messages.modify")
    action = action_kit.ask(mailbox, arrived, "snooze", **AN_HOUR)
    with before_it_is_tried_again():
        assert action_kit.run(action).status == "pending"
        settings.SNOOZE_LABEL = "Later"
        mark_done(mailbox, arrived)
    assert mailbox.labels(arrived) == DONE


@pytest.mark.parametrize("fault", [LOST_ANSWER, Fault(status=503)], ids=["lost", "503"])
def test_a_snooze_that_is_being_tried_is_not_tried_again(
    mailbox: Mailbox, arrived: str, fault: Fault
) -> None:
    mailbox.simulator.order_fault(fault, method="messages.modify")
    action = action_kit.ask(mailbox, arrived, "snooze", **AN_HOUR)
    with before_it_is_tried_again():
        assert action_kit.run(action).status == "pending"
        mark_done(mailbox, arrived)
    an_hour_later()
    assert mailbox.labels(arrived) == DONE
    assert action_kit.current(action).status == "canceled"


def test_snoozed_again_after_done_it_comes_back(mailbox: Mailbox, arrived: str) -> None:
    mark_done(mailbox, arrived)
    action_kit.done(mailbox, arrived, "snooze", **AN_HOUR)
    assert mailbox.labels(arrived) == {*DONE, SNOOZED}
    an_hour_later()
    assert mailbox.labels(arrived) == {*DONE, "INBOX"}


@pytest.mark.parametrize("slept", [0, 2])
def test_done_in_a_paused_mailbox_ends_the_snooze_when_it_is_resumed(
    mailbox: Mailbox, arrived: str, slept: float
) -> None:
    action_kit.done(mailbox, arrived, "snooze", **AN_HOUR)
    pause_mailbox(mailbox.account)
    mark_done(mailbox, arrived)
    with frozen_time(database_now()) as clock:
        clock.tick(hours=slept)
        drain()
        assert mailbox.labels(arrived) > {*DONE, SNOOZED}
        resume_writing(mailbox.reload())
        clock.tick(minutes=5)
        drain()
        clock.tick(hours=2)
        drain()
    assert mailbox.labels(arrived) == DONE


def test_done_leaves_the_snooze_of_a_mailbox_that_suggests_only(
    mailbox: Mailbox, arrived: str
) -> None:
    action_kit.done(mailbox, arrived, "snooze", **AN_HOUR)
    suggest_only(mailbox.account)
    mark_done(mailbox, arrived)
    assert mailbox.labels(arrived) >= {*DONE, SNOOZED}
    an_hour_later()
    assert "INBOX" in mailbox.labels(arrived)


def test_done_twice_is_done_once(mailbox: Mailbox, arrived: str) -> None:
    """The job runs again, as after a worker's death just after the commit."""
    action_kit.done(mailbox, arrived, "snooze", **AN_HOUR)
    mark_done(mailbox, arrived)
    (cleanup,) = jobs("cleanup", live=False)
    actions = len(stored(Action))
    payload = {name: cleanup.payload[name] for name in ("account_id", "thread_id", "action")}
    assert run_job("cleanup", payload, firm=mailbox.firm).status == "completed"
    assert len(stored(Action)) == actions
    assert mailbox.labels(arrived) == DONE
