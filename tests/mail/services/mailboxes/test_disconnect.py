"""What waits when a mailbox is disconnected is not done once it is back."""

from __future__ import annotations

import pytest

from mail.models import Action, ActionType, MailAccount, OutboundMessage
from mail.services.actions.actions import request_action
from mail.services.approvals.approvals import approve
from mail.services.mailboxes.connect_account import Consent, connect_account, disconnect_account
from mail.services.mailboxes.modes import pause_mailbox, resume_writing
from tenants.scope import firm_scope
from tests.mail.action_kit import received
from tests.mail.approval_kit import person, reread, waiting
from tests.mail.google_kit import granted
from tests.mail.mail_kit import Mailbox, drain, drain_later, only, stored
from tests.mail.send_kit import answer, at_once, current, sent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-01", "M-18", "M-24")]


@pytest.fixture
def box(connected: Mailbox) -> Mailbox:
    """Return a mailbox of somebody's own, as one that was never local."""
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
    """Disconnect it, and connect it again before any job found out."""
    disconnect_account(box.reload(), keep_days=30)
    connect_again(box)


def test_a_message_that_can_still_be_canceled_is_not_sent(box: Mailbox) -> None:
    outbound = answer(box, received(box))
    come_and_go(box)
    drain_later()
    assert (current(outbound).status, sent(box)) == ("canceled", [])
    assert "disconnected" in current(outbound).error


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
