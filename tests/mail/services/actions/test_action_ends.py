"""How actions end: in order, together, and when their job dies."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.engine.clock import database_now
from jobs.queue import cancel
from jobs.testing import drain, frozen_time
from mail.gmail.client import GmailClient
from mail.gmail.simulator.faults import LOST_ANSWER, Fault
from mail.models import Action, MailAccount
from mail.services.actions import change_labels
from mail.services.actions.perform import perform_action
from mail.services.actions.sweep import sweep_actions
from mail.services.mailboxes.modes import suggest_only
from tenants.scope import firm_scope
from tests.mail.action_kit import ARRIVED, ask, current, received, run, store, undone
from tests.mail.mail_kit import Mailbox, letter

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-15")]

ROOT = "<root@customer.example>"


def threaded(mailbox: Mailbox, count: int) -> list[str]:
    """Let the messages of one thread arrive."""
    raws = [letter("One", message_id=ROOT)]
    raws += [letter("Re: One", f"Answer {number}", reply_to_id=ROOT) for number in range(count - 1)]
    arrived = [mailbox.receive(raw, labels=("INBOX",)) for raw in raws]
    for one in arrived:
        store(mailbox, one)
    return arrived


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
    other = ask(mailbox, received(mailbox), "star")
    mailbox.simulator.order_fault(Fault(status=503), method="messages.modify")
    with frozen_time(database_now()) as clock:
        assert run(first).status == "pending"
        assert (run(second).status, current(second).status) == ("pending", "queued")
        # An action that waits for an earlier one on its message does not hold up other messages.
        assert run(other).status == "completed"
        for _ in range(3):
            clock.tick(minutes=5)
            drain()
    assert [current(one).status for one in (first, second)] == ["completed", "completed"]
    assert mailbox.labels(arrived) == {"INBOX"}


def test_many_messages_of_a_thread_are_changed_with_one_request(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_labels, "BATCH_PAYS_FROM", 2)
    *some, other = threaded(mailbox, 3)
    actions = [ask(mailbox, one, "star") for one in some]
    mailbox.simulator.order_fault(Fault(status=500), method="messages.modify")
    assert run(actions[0]).result["together"] == 2
    assert [mailbox.labels(one) for one in some] == [{"INBOX", "STARRED"}] * 2
    assert mailbox.labels(other) == {"INBOX"}


@pytest.mark.parametrize("method", ["messages.modify", "messages.batchModify"])
@pytest.mark.parametrize("fault", [None, LOST_ANSWER, Fault(status=429), Fault(status=503)])
def test_a_message_that_comes_while_its_thread_is_changed_stays_as_it_is(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, method: str, fault: Fault | None
) -> None:
    if method == "messages.batchModify":
        monkeypatch.setattr(change_labels, "BATCH_PAYS_FROM", 2)
    arrived = threaded(mailbox, 3)
    actions = [ask(mailbox, one, "archive") for one in arrived]
    read, late = GmailClient.get_thread, []

    def in_between(gmail: GmailClient, *args: Any, **more: Any) -> Any:
        answer = read(gmail, *args, **more)
        if not late:
            raw = letter("Re: One", "Wait!", reply_to_id=ROOT)
            late.append(mailbox.receive(raw, labels=("INBOX", "UNREAD")))
            if fault is not None:
                mailbox.simulator.order_fault(fault, method=method)
        return answer

    monkeypatch.setattr(GmailClient, "get_thread", in_between)
    with frozen_time(database_now()) as clock:
        for _ in range(4):
            drain()
            clock.tick(minutes=5)
            with firm_scope(mailbox.firm):
                # `held_until` is a time of Python's clock, which `frozen_time` does not move.
                MailAccount.objects.update(held_until=None)
        assert {current(one).status for one in actions} == {"completed"}
        assert [mailbox.labels(one) for one in arrived] == [set()] * 3
        assert [mailbox.labels(one) for one in late] == [{"INBOX", "UNREAD"}]
        for action in actions:
            undone(mailbox, current(action))
        assert [mailbox.labels(one) for one in arrived] == [{"INBOX"}] * 3


def test_of_many_actions_in_a_thread_each_is_executed(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_labels, "MAX_TOGETHER", 2)
    arrived = threaded(mailbox, 4)
    actions = [ask(mailbox, one, "star") for one in arrived]
    # As after an outage that interrupted all of them; the last one is tried again first.
    with firm_scope(mailbox.firm):
        Action.objects.update(status="executing")
    last = current(actions[3])
    assert last.job_id is not None
    perform_action(mailbox.account, mailbox.gmail, last.pk, job_id=last.job_id)
    assert current(last).status == "completed"
    assert "STARRED" in mailbox.labels(arrived[3])
    drain()
    assert {current(one).status for one in actions} == {"completed"}


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


@pytest.mark.req("M-24")
def test_what_gmail_did_while_the_mailbox_began_to_suggest_only_is_completed(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = ask(mailbox, arrived, "archive")
    modify = GmailClient.modify_message

    def switched_meanwhile(*args: Any, **kwargs: Any) -> Any:
        suggest_only(mailbox.account)
        assert current(action).status == "canceled"
        return modify(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(GmailClient, "modify_message", switched_meanwhile)
        run(action)
    assert mailbox.labels(arrived) == {"UNREAD"}
    assert current(action).status == "completed"
    undone(mailbox, current(action))
    assert mailbox.labels(arrived) == set(ARRIVED)


@pytest.mark.req("M-24")
@pytest.mark.parametrize(
    ("fault", "status", "labels"),
    [(LOST_ANSWER, "completed", {"UNREAD"}), (503, "canceled", set(ARRIVED))],
)
def test_of_what_got_no_answer_before_the_switch_the_row_says_the_truth(
    mailbox: Mailbox, fault: Any, status: str, labels: set[str]
) -> None:
    arrived = received(mailbox, *ARRIVED)
    action = ask(mailbox, arrived, "archive")
    ordered = Fault(status=fault) if isinstance(fault, int) else fault
    mailbox.simulator.order_fault(ordered, method="messages.modify")
    with frozen_time(database_now()) as clock:
        assert run(action).status == "pending"
        suggest_only(mailbox.account)
        clock.tick(minutes=5)
        drain()
    assert mailbox.labels(arrived) == labels
    assert current(action).status == status
