"""After its mail was deleted, a mailbox is read anew, and rules do not act on it a second time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from mail.models import MailAccount, Mode, SafeMode
from mail.services.mailboxes.connect_account import Consent, connect_account, disconnect_account
from mail.services.rules.operations import create_rule, enable_rule, try_rule
from tenants.audit import SERVICE
from tenants.scope import firm_scope
from tests.mail.approval_kit import person
from tests.mail.draft_kit import QUESTION, prepared, synced
from tests.mail.google_kit import granted
from tests.mail.mail_kit import Mailbox, drain, letter
from tests.mail.send_kit import at_once, sent

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.req("M-10", "M-18", "M-24"),
]


def acting(mailbox: Mailbox) -> Mailbox:
    """Let a rule archive and answer mail about prices, without asking anybody."""
    at_once(prepared(mailbox))
    owner = person(mailbox)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(
            shared=False, owner=owner.user, active_since=timezone.now() - timedelta(hours=1)
        )
    rule = create_rule(
        mailbox.firm.pk,
        name="Prices",
        conditions={"type": "subject_contains", "value": "price"},
        actions=[
            {"action": "archive", "parameters": {}},
            {"action": "auto_reply", "parameters": {"body": "See our page."}},
        ],
        safe_mode=SafeMode.DANGEROUS_OVERRIDE,
    )
    try_rule(rule, user_id=None)
    enable_rule(rule, by=owner)
    mailbox.reload()
    return mailbox


def ask(mailbox: Mailbox, number: int) -> str:
    raw = letter(
        f"Price {number}",
        QUESTION,
        sender=f"Anna Novak <anna{number}@customer.example>",
        message_id=f"<q{number}@customer.example>",
    )
    # The header has whole seconds, so the mail would seem older than the mailbox's connection.
    return mailbox.receive(raw, at=timezone.now() + timedelta(seconds=1))


def read_anew(mailbox: Mailbox) -> None:
    """Disconnect the mailbox, have its mail deleted, and connect it again."""
    disconnect_account(mailbox.reload(), keep_days=0)
    drain()
    assert mailbox.messages() == []
    grant = granted(mailbox.account.address)
    with firm_scope(mailbox.firm):
        consent = Consent(grant, mailbox.account.address, [])
        connect_account(mailbox.firm.pk, consent, by=SERVICE)
    mailbox.reload()
    drain()


def test_nothing_is_answered_or_archived_twice(connected: Mailbox) -> None:
    arrived = ask(acting(connected), 1)
    synced(connected)
    assert len(sent(connected)) == 1
    assert "INBOX" not in connected.labels(arrived)
    # The person wants it in the inbox, after all.
    connected.gmail.modify_message(arrived, add=["INBOX"])
    synced(connected)

    read_anew(connected)

    assert connected.account.mode == Mode.ACTIVE
    assert connected.message(arrived).thread.classification
    assert len(sent(connected)) == 1
    assert "INBOX" in connected.labels(arrived)


def test_rules_act_on_what_comes_then(connected: Mailbox) -> None:
    acting(connected)
    read_anew(connected)
    arrived = ask(connected, 2)
    synced(connected)
    assert len(sent(connected)) == 1
    assert "INBOX" not in connected.labels(arrived)
