"""Rules leave mail alone that a routing rule gave to an agent, whatever follows in its thread."""

from __future__ import annotations

import pytest

from mail.labels import LabelKey
from mail.models import Rule
from mail.services.rules import routing
from mail.services.rules.operations import apply_to_old_mail
from mail.services.rules.routing_operations import create_routing_rule
from tenants.scope import firm_scope
from tests.mail.draft_kit import give_label, prepared, rule, synced
from tests.mail.mail_kit import OWNER, Mailbox, drain_later, letter, without_drafts
from tests.mail.services.rules.test_unseen import starred

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-08", "M-10")]

INVOICE = "<invoice@supplier.example>"
SUPPLIER = "Bills <bills@supplier.example>"


@pytest.fixture
def handed_over(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> Mailbox:
    """Return a mailbox with a rule that stars all mail; the supplier's mail goes to an agent."""
    monkeypatch.setattr(routing, "configured_client", object)
    monkeypatch.setattr(routing, "_enqueue_agent", lambda *_: None)
    prepared(mailbox)
    without_drafts(mailbox)
    with firm_scope(mailbox.firm):
        rule(mailbox, category="")
        Rule.objects.update(actions=[{"action": "star", "parameters": {}}])
        create_routing_rule(
            mailbox.firm.pk,
            name="Bills",
            match={"sender_domain": "supplier.example"},
            route="agent",
            profile="shop",
        )
    return mailbox


def invoice(box: Mailbox) -> str:
    """Let the invoice arrive; return Gmail's id."""
    return box.receive(letter("Invoice", sender=SUPPLIER, message_id=INVOICE))


def follows(box: Mailbox, sender: str, *labels: str) -> str:
    """Let another message come into the thread; return Gmail's id."""
    raw = letter("Re: Invoice", sender=sender, reply_to_id=INVOICE)
    return box.receive(raw, labels=labels)


@pytest.mark.parametrize("smallest_page", [1, 100])
@pytest.mark.parametrize("at_once", [True, False])
def test_one_that_another_message_follows_is_left_alone(
    handed_over: Mailbox, monkeypatch: pytest.MonkeyPatch, smallest_page: int, *, at_once: bool
) -> None:
    monkeypatch.setattr("mail.services.deciding.requests.SMALLEST_PAGE", smallest_page)
    invoice(handed_over)
    if not at_once:
        synced(handed_over)
    newer = follows(handed_over, "Ben <ben@acme.example>", "INBOX")
    synced(handed_over)
    assert starred(handed_over) == [newer]


@pytest.mark.parametrize("smallest_page", [1, 100])
def test_one_that_is_answered_is_left_alone(
    handed_over: Mailbox, monkeypatch: pytest.MonkeyPatch, smallest_page: int
) -> None:
    monkeypatch.setattr("mail.services.deciding.requests.SMALLEST_PAGE", smallest_page)
    invoice(handed_over)
    follows(handed_over, OWNER, "SENT")
    synced(handed_over)
    assert starred(handed_over) == []


@pytest.mark.parametrize("label", [LabelKey.FYI, LabelKey.NEEDS_RESPONSE])
def test_one_that_the_person_labels_is_left_alone(handed_over: Mailbox, label: LabelKey) -> None:
    arrived = invoice(handed_over)
    synced(handed_over)
    give_label(handed_over, arrived, label)
    synced(handed_over)
    drain_later()
    assert starred(handed_over) == []


def test_one_that_was_stored_before_the_rule_is_left_alone(handed_over: Mailbox) -> None:
    invoice(handed_over)
    other = follows(handed_over, "Ben <ben@acme.example>", "INBOX")
    with firm_scope(handed_over.firm):
        Rule.objects.update(enabled=False)
    synced(handed_over)
    assert starred(handed_over) == []
    with firm_scope(handed_over.firm):
        Rule.objects.update(enabled=True)
        apply_to_old_mail(Rule.objects.get(), days=3_000)
    drain_later()
    assert starred(handed_over) == [other]
