"""Two firms with one mailbox: what Mailroom writes for one is not the person's for the other."""

from __future__ import annotations

import pytest

from mail.labels import LabelKey
from mail.models import Decision, MailAccount, Mode, Rule
from mail.services.mailboxes.accounts import open_account
from mail.services.syncing.labels import refresh_labels
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.mail.draft_kit import give_label, prepared, rule, state_labels, synced
from tests.mail.mail_kit import OWNER, Mailbox, jobs, letter, stored, without_drafts

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-19", "M-24")]


@pytest.fixture
def reader(mailbox: Mailbox, other_firm: Firm) -> Mailbox:
    """Return the same mailbox in another firm, where it is suggest-only."""
    without_drafts(prepared(mailbox))
    with firm_scope(mailbox.firm):
        rule(mailbox, category="needs_response")
    account = open_account(other_firm, OWNER)
    with firm_scope(other_firm):
        MailAccount.objects.filter(pk=account.pk).update(mode=Mode.SUGGEST)
    found = Mailbox(other_firm, account, mailbox.simulator)
    refresh_labels(found.reload(), found.gmail)
    synced(found)
    return found


def decisions(mailbox: Mailbox) -> list[tuple[str, str]]:
    rows = [row for row in stored(Decision) if row.firm_id == mailbox.firm.pk]
    return [(row.source, row.category) for row in rows]


def arrive(mailbox: Mailbox) -> str:
    return mailbox.receive(letter("The parcel", "It left today."))


def test_a_label_of_mailroom_is_no_order_to_the_other_firm(
    mailbox: Mailbox, reader: Mailbox
) -> None:
    arrived = arrive(mailbox)
    synced(reader)
    synced(mailbox)
    assert state_labels(mailbox, arrived) == {LabelKey.NEEDS_RESPONSE}
    synced(reader)
    assert decisions(reader) == [("offline", "fyi")]
    assert [row for row in stored(Rule) if row.firm_id == reader.firm.pk] == []


@pytest.mark.parametrize("key", [LabelKey.NEEDS_RESPONSE, LabelKey.ACTION_REQUIRED])
def test_a_label_on_a_message_not_stored_yet_is_no_order_to_the_other_firm(
    mailbox: Mailbox, reader: Mailbox, key: LabelKey
) -> None:
    with firm_scope(mailbox.firm):
        Rule.objects.update(category=key.value)
    arrived = arrive(mailbox)
    synced(mailbox)
    assert state_labels(mailbox, arrived) == {key}
    synced(reader)
    assert decisions(reader) == [("offline", "fyi")]
    assert jobs("manual_draft", live=False) == []


def test_the_persons_label_is_one_to_both(mailbox: Mailbox, reader: Mailbox) -> None:
    arrived = arrive(mailbox)
    for each in (reader, mailbox, reader):
        synced(each)
    give_label(mailbox, arrived, LabelKey.ACTION_REQUIRED)
    for each in (reader, mailbox, reader):
        synced(each)
    assert decisions(reader) == [("offline", "fyi"), ("person", "action_required")]
    assert decisions(mailbox) == [("rule", "needs_response"), ("person", "action_required")]
