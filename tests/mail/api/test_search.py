"""Search over REST finds only mail that the caller may read, in any firm or private mailbox."""

from __future__ import annotations

import pytest

from jobs.testing import drain
from mail.models import MailAccount, Message
from mail.services.mailboxes.accounts import open_account
from mail.services.queueing import request_sync
from tenants.models import Firm, Membership, Role
from tenants.scope import all_firms, firm_scope
from tests.mail.api.test_messages import Api
from tests.mail.mail_kit import Mailbox, letter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("U-06", "T-03", "M-23")]


def filled(box: Mailbox, subject: str) -> Mailbox:
    """Let a message about aubergines arrive, and index it."""
    text = "Could you send me the price of one aubergine, please?"
    box.receive(letter(subject, text, to=box.account.address))
    with firm_scope(box.firm):
        request_sync(box.account)
    drain()
    return box


def hits(api: Api, words: str, **query: object) -> set[str]:
    """Return the subjects that a search finds; null for a message that the caller may not read."""
    answer = api.get("messages/", q=words, **query)
    assert answer.status_code == 200, answer.content
    assert answer.json()["next"] is None
    return {row["subject"] for row in answer.json()["results"]}


def test_a_hit_in_each_of_two_firms_and_in_a_closed_mailbox(
    mailbox: Mailbox, other_firm: Firm
) -> None:
    firm, local = mailbox.firm, mailbox.simulator
    shared = filled(mailbox, "Shared")
    closed = filled(Mailbox(firm, open_account(firm, "ann@acme.example"), local), "Closed")
    theirs = open_account(other_firm, "owner@globex.example")
    filled(Mailbox(other_firm, theirs, local), "Theirs")
    member, owner, stranger = (
        Api(firm, Role.ADMIN), Api(firm, Role.VIEWER), Api(other_firm, Role.ADMIN),
    )  # fmt: skip
    with firm_scope(firm):
        viewer = Membership.objects.get(role=Role.VIEWER).user_id
        MailAccount.objects.filter(pk=closed.account.pk).update(shared=False, owner_id=viewer)
    with all_firms("test"):
        assert Message.objects.count() == 3

    for words in ("aubergine", "AUBERG price", "could you send"):
        assert hits(member, words) == {"Shared"}
        assert hits(owner, words) == {"Shared", "Closed"}
        assert hits(stranger, words) == {"Theirs"}
    # Neither a filter beside the words nor a word of a subject reaches further.
    assert hits(member, "aubergine", account_id=closed.account.pk) == set()
    assert hits(stranger, "aubergine", account_id=shared.account.pk) == set()
    assert hits(member, "closed") == hits(member, "theirs") == set()
    assert hits(owner, "closed") == {"Closed"}
    assert hits(stranger, "shared") == hits(stranger, "closed") == set()
