"""A message is not sent if its mailbox is stopped while the message is prepared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from mail.gmail.client import GmailClient
from mail.models import MailAccount, OutboundMessage
from mail.services.mailboxes.connect_account import disconnect_account
from mail.services.mailboxes.modes import activate, pause_mailbox, resume_writing, suggest_only
from mail.services.sending.outbound_operations import send_again
from tenants.scope import firm_scope
from tests.mail.action_kit import received
from tests.mail.mail_kit import Mailbox
from tests.mail.send_kit import answer, at_once, attempts, current, drafts, sent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-18", "M-24")]


@pytest.fixture
def box(mailbox: Mailbox) -> Mailbox:
    """Return a mailbox that sends messages without delay."""
    return at_once(mailbox)


def stopped_meanwhile(box: Mailbox, stop: Callable[[MailAccount], Any]) -> OutboundMessage:
    """Begin to send a message, and stop the mailbox after Gmail has created the draft."""
    outbound = answer(box, received(box))
    create = GmailClient.create_draft

    def stops(gmail: GmailClient, *arguments: Any) -> Any:
        made = create(gmail, *arguments)
        stop(box.reload())
        return made

    with patch.object(GmailClient, "create_draft", stops):
        attempts(outbound, most=1)
    assert sent(box) == []
    return current(outbound)


def test_a_pause_holds_what_is_not_sent_yet(box: Mailbox) -> None:
    outbound = stopped_meanwhile(box, pause_mailbox)
    assert outbound.status == "sending"
    attempts(outbound, most=2)
    assert (current(outbound).status, sent(box)) == ("sending", [])
    resume_writing(box.reload())
    attempts(outbound)
    assert (current(outbound).status, len(sent(box)), drafts(box)) == ("sent", 1, 0)


def test_a_mailbox_that_begins_to_suggest_only_sends_no_more(box: Mailbox) -> None:
    outbound = stopped_meanwhile(box, suggest_only)
    assert (outbound.status, "set to suggest only" in outbound.error) == ("canceled", True)
    assert drafts(box) == 0
    activate(box.reload())
    send_again(outbound, reason="It was right.")
    attempts(outbound)
    assert (current(outbound).status, len(sent(box)), drafts(box)) == ("sent", 1, 0)


def test_a_mailbox_that_is_disconnected_sends_no_more(box: Mailbox) -> None:
    outbound = stopped_meanwhile(box, lambda account: disconnect_account(account, keep_days=30))
    assert (outbound.status, "disconnected" in outbound.error) == ("canceled", True)
    assert drafts(box) == 0


def test_a_mailbox_that_is_switched_off_sends_no_more(box: Mailbox) -> None:
    def switch_off(account: MailAccount) -> None:
        with firm_scope(account.firm_id):
            MailAccount.objects.filter(pk=account.pk).update(active=False)

    outbound = stopped_meanwhile(box, switch_off)
    # The message's draft is in Gmail, so only a person can tell whether it was sent.
    assert outbound.status == "unknown"
    attempts(outbound, most=2)
    assert (current(outbound).status, sent(box)) == ("unknown", [])
