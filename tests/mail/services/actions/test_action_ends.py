"""How actions end: in order, together, and when their job dies."""

from __future__ import annotations

import pytest

from jobs.engine.clock import database_now
from jobs.queue import cancel
from jobs.testing import drain, frozen_time
from mail.gmail.simulator.faults import Fault
from mail.services.actions.sweep import sweep_actions
from tests.mail.action_kit import ARRIVED, ask, current, received, run, store, undone
from tests.mail.mail_kit import Mailbox, letter

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-15")]


def test_changes_of_one_message_are_made_together_and_undone_apart(mailbox: Mailbox) -> None:
    arrived = received(mailbox, *ARRIVED)
    first = ask(mailbox, arrived, "archive")
    second = ask(mailbox, arrived, "star")
    assert run(first).result["together"] == 2
    assert current(second).status == "completed"
    drain()
    undone(mailbox, current(first))
    assert mailbox.labels(arrived) == {"INBOX", "UNREAD", "STARRED"}


def test_changes_of_the_same_label_keep_their_order(mailbox: Mailbox) -> None:
    arrived = received(mailbox, "INBOX")
    first = ask(mailbox, arrived, "star")
    second = ask(mailbox, arrived, "unstar")
    mailbox.simulator.order_fault(Fault(status=503), method="messages.modify")
    with frozen_time(database_now()) as clock:
        assert run(first).status == "pending"
        assert (run(second).status, current(second).status) == ("pending", "queued")
        for _ in range(3):
            clock.tick(minutes=5)
            drain()
    assert [current(one).status for one in (first, second)] == ["completed", "completed"]
    assert mailbox.labels(arrived) == {"INBOX"}


def test_a_whole_thread_is_changed_with_one_request(mailbox: Mailbox) -> None:
    root = "<root@customer.example>"
    arrived = [mailbox.receive(letter("One", message_id=root))]
    arrived += [
        mailbox.receive(letter("Re: One", f"Answer {number}", reply_to_id=root))
        for number in range(2)
    ]
    for one in arrived:
        store(mailbox, one)
    actions = [ask(mailbox, one, "archive") for one in arrived]
    # Were it not for the thread, each message would meet this.
    mailbox.simulator.order_fault(Fault(status=500), method="messages.modify", times=9)
    assert run(actions[0]).result["together"] == 3
    assert [mailbox.labels(one) for one in arrived] == [{"UNREAD"}] * 3


@pytest.mark.parametrize("begun", [False, True])
def test_an_action_whose_job_is_canceled_is_ended_and_goes_on_when_it_is_retried(
    mailbox: Mailbox, begun: bool
) -> None:
    from jobs.queue import retry

    arrived = received(mailbox, *ARRIVED)
    action = ask(mailbox, arrived, "archive")
    if begun:
        mailbox.simulator.order_fault(Fault(status=503), method="messages.modify")
        run(action)
    job_id = current(action).job_id
    assert job_id is not None
    assert sweep_actions()["failed"] == 0
    cancel(job_id)
    assert sweep_actions()["failed"] == 1
    assert (current(action).status, current(action).error) == ("failed", "Its job was canceled")
    retry(job_id)
    assert run(action).status == "completed"
    assert current(action).status == "completed"
    assert mailbox.labels(arrived) == {"UNREAD"}
