"""Who may read a mailbox's mail, and until when."""

from __future__ import annotations

import pytest

from mail.models import MailAccount
from mail.services.mailboxes.content_access import grant_content, may_read
from tenants.audit import SERVICE
from tenants.models import Membership, Role
from tenants.scope import firm_scope
from tests.factories.tenants import UserFactory
from tests.mail.mail_kit import Mailbox

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-23")]


def test_a_grant_ends_with_the_membership(mailbox: Mailbox) -> None:
    owner, bob, eve = (UserFactory(member_of=mailbox.firm) for _ in range(3))
    with firm_scope(mailbox.firm):
        MailAccount.objects.filter(pk=mailbox.account.pk).update(shared=False, owner=owner)
        account = MailAccount.objects.get(pk=mailbox.account.pk)
        grant_content(account, bob, by=SERVICE)
        grant_content(account, eve, by=SERVICE)

        Membership.objects.filter(user=bob).delete()
        Membership.objects.create(user=bob, firm=mailbox.firm, role=Role.VIEWER)

        assert not may_read(bob.pk, account)
        assert may_read(eve.pk, account)
