"""A draft that the person sent before Mailroom could check what became of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jobs.testing import frozen_time
from mail.gmail.simulator.faults import Fault
from mail.labels import LabelKey
from mail.models import Draft, EventType, MailEvent
from tests.mail.draft_kit import (
    QUESTION,
    asked,
    edit,
    give_label,
    listed,
    prepared,
    state_labels,
    synced,
    the_thread,
    versions,
)
from tests.mail.mail_kit import Mailbox, drain, drain_later, letter, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-19")]


def sent_then_looked_at_late(mailbox: Mailbox, *, asked_again_after: float) -> str:
    """Let a draft be written and sent, and somebody ask again, before Mailroom checks the draft."""
    arrived = asked(prepared(mailbox))
    sent_then_asked_again(mailbox, after=asked_again_after)
    return arrived


def sent_then_asked_again(mailbox: Mailbox, *, after: float) -> None:
    """Let the person send the draft and somebody ask again, before Mailroom checks the draft."""
    mailbox.gmail.send_draft(listed(mailbox)[0]["id"])
    later = datetime.now(UTC) + timedelta(seconds=after)
    again = letter("Re: Price list", QUESTION, reply_to_id="<q1@customer.example>", at=later)
    mailbox.receive(again, at=later)
    # The check of the draft is tried again after the second question's draft job is done.
    mailbox.simulator.order_fault(Fault(503), method="drafts.get")
    synced(mailbox)
    drain_later(3)


def test_one_sent_from_a_thread_of_its_own_is_not_taken_for_discarded(mailbox: Mailbox) -> None:
    # The question has no Message-ID to which the draft could refer.
    arrived = asked(prepared(mailbox), message_id="")
    mailbox.gmail.send_draft(listed(mailbox)[0]["id"])
    synced(mailbox)
    assert versions() == [("automatic", "sent", 0)]
    assert mailbox.message(arrived).thread.status == "sent"


def test_a_question_after_it_is_answered_all_the_same(mailbox: Mailbox) -> None:
    sent_then_looked_at_late(mailbox, asked_again_after=5)
    assert versions() == [("automatic", "sent", 0), ("automatic", "ready", 0)]
    assert len(listed(mailbox)) == 1
    assert the_thread().status == "drafted"
    events = [one.event_type for one in stored(MailEvent)]
    assert events.count(EventType.SENT_DETECTED) == 1


def test_one_asked_for_by_hand_stays_though_the_looks_at_the_sent_one_are_late(
    mailbox: Mailbox,
) -> None:
    arrived = asked(prepared(mailbox))
    mailbox.gmail.send_draft(listed(mailbox)[0]["id"])
    # Two jobs check the draft: one because the draft is gone, one because of the sent message.
    for _ in range(2):
        mailbox.simulator.order_fault(Fault(503), method="drafts.get")
    synced(mailbox)
    assert versions() == [("automatic", "ready", 0)]
    give_label(mailbox, arrived, LabelKey.NEEDS_RESPONSE)
    synced(mailbox)
    drain_later()
    assert versions() == [("automatic", "sent", 0), ("manual", "ready", 0)]
    assert len(listed(mailbox)) == 1
    assert the_thread().status == "drafted"


def test_a_draft_sent_while_its_rework_fails_is_noted_as_sent(mailbox: Mailbox) -> None:
    arrived = asked(prepared(mailbox))
    give_label(mailbox, arrived, LabelKey.REWORK)
    # The rework is composed and stored, but the next request to Gmail fails.
    mailbox.simulator.order_fault(Fault(503), method="messages.trash")
    synced(mailbox)
    assert [status for _, status, _ in versions()] == ["ready", "writing"]
    mailbox.gmail.send_draft(listed(mailbox)[0]["id"])
    synced(mailbox)
    drain_later()
    assert [status for _, status, _ in versions()] == ["sent", "canceled"]
    assert the_thread().status == "sent"
    assert LabelKey.OUTBOX not in state_labels(mailbox, arrived)
    assert listed(mailbox) == []


def test_a_question_after_it_is_answered_though_the_rework_ends_first(mailbox: Mailbox) -> None:
    arrived = asked(prepared(mailbox))
    with frozen_time() as clock:
        give_label(mailbox, arrived, LabelKey.REWORK)
        mailbox.simulator.order_fault(Fault(503), method="messages.trash")
        synced(mailbox)
        mailbox.gmail.send_draft(listed(mailbox)[0]["id"])
        later = datetime.now(UTC) + timedelta(seconds=5)
        again = letter("Re: Price list", QUESTION, reply_to_id="<q1@customer.example>", at=later)
        mailbox.receive(again, at=later)
        # The draft for the second question fails first, so it is tried again after the rework.
        mailbox.simulator.order_fault(Fault(503), method="drafts.list")
        synced(mailbox)
        assert [status for _, status, _ in versions()] == ["ready", "writing"]
        for _ in range(3):
            clock.tick(hours=1)
            drain()
    assert versions()[-1] == ("automatic", "ready", 0)
    assert [status for _, status, _ in versions()] == ["sent", "canceled", "ready"]
    assert the_thread().status == "drafted"


def test_an_edited_draft_that_was_sent_is_still_said_to_be_edited(mailbox: Mailbox) -> None:
    asked(prepared(mailbox))
    edit(mailbox, "My own words.")
    synced(mailbox)
    assert stored(Draft)[0].edited
    sent_then_asked_again(mailbox, after=5)
    assert [(row.status, row.edited) for row in stored(Draft)] == [("sent", True), ("ready", False)]
