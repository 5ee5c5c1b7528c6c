"""Rules in threads that are judged again."""

from __future__ import annotations

import pytest

from mail.labels import LabelKey
from mail.llm.base import Category
from mail.models import Action, ActionType, OutboundMessage, Rule, SafeMode, ThreadStatus
from mail.services.deciding.corrections import reclassify
from tenants.scope import firm_scope
from tests.mail.draft_kit import (
    answer_by_hand,
    asked,
    listed,
    prepared,
    rule,
    state_labels,
    synced,
    the_thread,
)
from tests.mail.mail_kit import Mailbox, drain, letter, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-10")]

FORWARD = {"action": "forward", "parameters": {"to": ["books@firm.example"]}}
STAR = {"action": "star", "parameters": {}}


def forwarding_rule(mailbox: Mailbox) -> None:
    with firm_scope(mailbox.firm):
        rule(mailbox, category="fyi")
        Rule.objects.update(actions=[FORWARD, STAR], safe_mode=SafeMode.DANGEROUS_OVERRIDE)


def asked_for(action_type: ActionType) -> int:
    return len([one for one in stored(Action) if one.action_type == action_type])


@pytest.mark.parametrize("by", ["hand", "its draft"])
def test_what_the_owner_answered_gets_no_second_draft_by_a_rule(mailbox: Mailbox, by: str) -> None:
    prepared(mailbox)
    with firm_scope(mailbox.firm):
        rule(mailbox, category="needs_response")
    arrived = asked(mailbox)
    assert len(listed(mailbox)) == 1

    if by == "hand":
        answer_by_hand(mailbox)
    else:
        mailbox.gmail.send_draft(listed(mailbox)[0]["id"])
    synced(mailbox)

    thread = the_thread()
    assert (thread.classification, thread.status) == (Category.WAITING, ThreadStatus.SENT)
    assert listed(mailbox) == []
    assert state_labels(mailbox, arrived) == {LabelKey.WAITING}


def test_a_rule_acts_once_on_a_message_however_often_it_is_judged(mailbox: Mailbox) -> None:
    forwarding_rule(prepared(mailbox))
    arrived = asked(mailbox)

    answer_by_hand(mailbox)
    synced(mailbox)
    reclassify(mailbox.message(arrived))
    drain()

    assert len(stored(OutboundMessage)) == 1
    assert asked_for(ActionType.STAR) == 1


@pytest.mark.parametrize("label", ["TRASH", "SPAM"])
def test_a_rule_does_nothing_to_what_was_thrown_away(mailbox: Mailbox, label: str) -> None:
    forwarding_rule(prepared(mailbox))
    with firm_scope(mailbox.firm):
        Rule.objects.update(enabled=False)
    arrived = asked(mailbox)
    mailbox.gmail.modify_message(arrived, add=[label])
    synced(mailbox)
    with firm_scope(mailbox.firm):
        Rule.objects.update(enabled=True)

    reclassify(mailbox.message(arrived))
    drain()

    assert the_thread().classification == Category.FYI
    assert stored(OutboundMessage) == []
    assert asked_for(ActionType.STAR) == 0


def test_a_rule_acts_on_each_new_message_of_a_thread(mailbox: Mailbox) -> None:
    forwarding_rule(prepared(mailbox))
    asked(mailbox)

    mailbox.receive(
        letter("Re: Price list", "And one more thing.", message_id="<q2@customer.example>",
               reply_to_id="<q1@customer.example>")
    )  # fmt: skip
    synced(mailbox)

    assert len(stored(OutboundMessage)) == 2
