"""A person who asks for an answer gives the thread its category; rules act as after a verdict."""

from __future__ import annotations

import pytest

from mail.labels import LabelKey
from mail.llm.client import ModelUnavailable
from mail.models import Action, ActionType, Decision, Draft, Rule
from mail.services.mailboxes.modes import suggest_only
from tenants.scope import firm_scope
from tests.mail.draft_kit import (
    asked,
    give_label,
    in_gmail,
    prepared,
    rule,
    synced,
    the_thread,
    while_composing,
)
from tests.mail.mail_kit import Mailbox, drain_later, letter, stored, without_drafts
from tests.mail.services.rules.test_unseen import while_judged

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-10", "M-19")]


@pytest.fixture
def ready(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> Mailbox:
    """Return a mailbox with a rule that stars all mail; its model is down at the next verdict."""

    def fail() -> None:
        raise ModelUnavailable("The model is down")

    prepared(mailbox)
    with firm_scope(mailbox.firm):
        rule(mailbox, category="")
        Rule.objects.update(actions=[{"action": "star", "parameters": {}}])
    while_judged(monkeypatch, fail)
    return mailbox


def starred() -> int:
    return len([one for one in stored(Action) if one.action_type == ActionType.STAR])


def test_rules_act_on_mail_that_was_not_judged(ready: Mailbox) -> None:
    arrived = asked(ready)
    assert starred() == 0
    give_label(ready, arrived, LabelKey.NEEDS_RESPONSE)
    synced(ready)
    drain_later()
    assert [decision.source for decision in stored(Decision)] == ["person"]
    assert starred() == 1
    assert "STARRED" in ready.labels(arrived)
    assert len(in_gmail(ready)) == 1


def test_rules_act_once_on_mail_that_was_judged(mailbox: Mailbox) -> None:
    without_drafts(prepared(mailbox))
    with firm_scope(mailbox.firm):
        rule(mailbox, category="")
        Rule.objects.update(actions=[{"action": "star", "parameters": {}}])
    arrived = asked(mailbox, "For your information: we are moving.")
    give_label(mailbox, arrived, LabelKey.NEEDS_RESPONSE)
    synced(mailbox)
    assert starred() == 1


def test_rules_act_on_nothing_where_mailroom_suggests_only(ready: Mailbox) -> None:
    arrived = asked(ready)
    suggest_only(ready.account)
    give_label(ready, arrived, LabelKey.NEEDS_RESPONSE)
    synced(ready)
    drain_later()
    assert starred() == 0


def test_mail_that_comes_while_the_answer_is_composed_is_judged(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_drafts(prepared(mailbox))
    arrived = asked(mailbox, "For your information: we are moving.")

    came: list[str] = []

    def comes() -> None:
        raw = letter("Re: Price list", reply_to_id="<q1@customer.example>")
        came.append(mailbox.receive(raw))
        mailbox.store_all()

    while_composing(monkeypatch, comes)
    give_label(mailbox, arrived, LabelKey.NEEDS_RESPONSE)
    synced(mailbox)
    drain_later()
    newest = mailbox.message(came[0])
    assert the_thread().classified_upto_id == newest.pk
    assert [one.message_id for one in stored(Decision)][-1] == newest.pk
    assert len(stored(Draft)) == 1
