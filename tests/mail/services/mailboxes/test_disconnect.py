"""Work that waits when a mailbox is disconnected is not done once it is connected again."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from mail.gmail.client import GmailClient
from mail.gmail.simulator.faults import LOST_ANSWER, Fault
from mail.models import Action, ActionType, MailAccount, OutboundMessage
from mail.services.actions.actions import request_action
from mail.services.approvals.approvals import approve
from mail.services.drafting.gmail_drafts import read_draft
from mail.services.mailboxes.connect_account import Consent, connect_account, disconnect_account
from mail.services.mailboxes.modes import activate, pause_mailbox, resume_writing, suggest_only
from mail.services.sending import send
from mail.services.sending.outbound_operations import send_again
from tenants.scope import firm_scope
from tests.mail.action_kit import received
from tests.mail.approval_kit import person, reread, waiting
from tests.mail.google_kit import granted
from tests.mail.mail_kit import Mailbox, drain, drain_later, only, stored
from tests.mail.send_kit import answer, at_once, attempts, current, drafts, sent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-01", "M-18", "M-24")]


@pytest.fixture
def box(connected: Mailbox) -> Mailbox:
    """Return a private mailbox, as one that was always connected to Google."""
    with firm_scope(connected.firm):
        MailAccount.objects.update(shared=False)
    return connected


def connect_again(box: Mailbox) -> None:
    grant = granted(box.account.address)
    with firm_scope(box.firm):
        connect_account(
            box.firm.pk, Consent(grant, box.account.address, []), by=person(box, name="new")
        )


def come_and_go(box: Mailbox) -> None:
    """Disconnect the mailbox, and connect it again before any job runs."""
    disconnect_account(box.reload(), keep_days=30)
    connect_again(box)


def wait_out(box: Mailbox) -> None:
    """Let Gmail take requests again, and run what has waited."""
    with firm_scope(box.firm):
        # `held_until` is a time of Python's clock, which `frozen_time` does not move.
        MailAccount.objects.update(held_until=None)
    drain_later()


def test_a_message_that_can_still_be_canceled_is_not_sent(box: Mailbox) -> None:
    outbound = answer(box, received(box))
    come_and_go(box)
    drain_later()
    assert (current(outbound).status, sent(box)) == ("canceled", [])
    assert "disconnected" in current(outbound).error


@pytest.mark.parametrize("stop", [suggest_only, partial(disconnect_account, keep_days=30)])
def test_a_message_of_a_restored_backup_needs_a_look(box: Mailbox, stop: Any) -> None:
    outbound = answer(box, received(box))
    # The message was queued in another database, whose workers may have sent it since.
    with firm_scope(box.firm):
        OutboundMessage.objects.update(database_id="another")
    stop(box.reload())
    assert current(outbound).status == "unknown"


@pytest.mark.parametrize("method", ["messages.list", "drafts.create", "drafts.send"])
@pytest.mark.parametrize("stops", ["disconnect", "suggest only"])
def test_a_message_whose_sending_was_put_off_is_not_sent(
    box: Mailbox, method: str, stops: str
) -> None:
    outbound = answer(at_once(box), received(box))
    box.simulator.order_fault(Fault(status=429, retry_after=600), method=method)
    attempts(outbound, most=1)
    assert current(outbound).status == "sending"
    if stops == "disconnect":
        come_and_go(box)
    else:
        suggest_only(box.reload())
        activate(box.reload())
    # After a failed drafts.send the draft is in Gmail, so only a person can tell whether it was
    # sent.
    ended = "unknown" if method == "drafts.send" else "canceled"
    assert current(outbound).status == ended
    wait_out(box)
    assert (current(outbound).status, sent(box)) == (ended, [])
    send_again(current(outbound), reason="I still want it sent")
    wait_out(box)
    assert (current(outbound).status, len(sent(box))) == ("sent", 1)


def test_a_message_that_is_stopped_while_its_draft_is_made_is_not_sent(box: Mailbox) -> None:
    outbound = answer(at_once(box), received(box))
    create = GmailClient.create_draft

    def stops(gmail: GmailClient, *arguments: Any) -> Any:
        made = create(gmail, *arguments)
        come_and_go(box)
        return made

    with patch.object(GmailClient, "create_draft", stops):
        attempts(outbound, most=1)
    assert drafts(box) == 0
    wait_out(box)
    assert (current(outbound).status, sent(box)) == ("canceled", [])


def test_a_message_that_is_stopped_while_its_draft_is_read_again_is_not_sent(box: Mailbox) -> None:
    outbound = answer(at_once(box), received(box))
    box.simulator.order_fault(Fault(status=503), method="drafts.send")
    attempts(outbound, most=1)
    assert (current(outbound).status, drafts(box)) == ("sending", 1)

    def stops(*arguments: Any) -> Any:
        draft = read_draft(*arguments)
        come_and_go(box)
        return draft

    with patch.object(send, "read_draft", stops):
        attempts(outbound, most=1)
    wait_out(box)
    # After a failed drafts.send the draft is in Gmail, so only a person can tell whether it was
    # sent.
    assert (current(outbound).status, sent(box)) == ("unknown", [])


def test_a_message_that_was_sent_when_its_answer_was_lost_is_noted_as_sent(box: Mailbox) -> None:
    outbound = answer(at_once(box), received(box))
    box.simulator.order_fault(LOST_ANSWER, method="drafts.send")
    attempts(outbound, most=1)
    come_and_go(box)
    assert current(outbound).status == "unknown"
    wait_out(box)
    assert (current(outbound).status, len(sent(box))) == ("sent", 1)


def test_a_message_that_was_approved_says_so(box: Mailbox) -> None:
    approval, owner = waiting(box), person(box)
    with firm_scope(box.firm):
        MailAccount.objects.update(owner=owner.user)
    approve(approval, by=owner)
    come_and_go(box)
    with firm_scope(box.firm):
        assert reread(approval).outcome == "Canceled: The mailbox was disconnected"


@pytest.mark.parametrize("asked", [ActionType.DELETE, ActionType.ARCHIVE, ActionType.FORWARD])
def test_an_action_that_waits_for_the_end_of_a_pause_is_not_done(
    box: Mailbox, asked: ActionType
) -> None:
    arrived = received(at_once(box))
    pause_mailbox(box.reload())
    parameters = {"to": ["else@where.example"]} if asked == ActionType.FORWARD else {}
    with firm_scope(box.firm):
        action = request_action(box.message(arrived), asked, parameters, needs_approval=False)
    come_and_go(box)
    resume_writing(box.reload())
    drain()
    assert only(stored(Action), pk=action.pk).status == "canceled"
    assert {one.status for one in stored(OutboundMessage)} <= {"canceled"}
    assert sent(box) == []
    assert "INBOX" in box.labels(arrived)
