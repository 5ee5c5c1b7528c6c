"""The form field that chooses a mailbox: which mailboxes it offers, and which it accepts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from mail.admin.scoped import MailboxChoice
from mail.models import MailAccount
from mail.services.mailboxes.accounts import open_account
from tenants.models import Firm
from tenants.scope import firm_scope, firms_scope
from tests.factories.tenants import UserFactory

pytestmark = pytest.mark.django_db


def opened(firm: Firm, address: str, owner: Any) -> MailAccount:
    with firm_scope(firm):
        account = open_account(firm, address)
        MailAccount.objects.filter(pk=account.pk).update(owner=owner, shared=False)
    return account


def test_the_field_takes_mailboxes_of_the_rows_firm_that_the_user_may_read(
    firm: Firm, other_firm: Firm
) -> None:
    ada = UserFactory()
    mine = opened(firm, "ada@a.example", ada)
    elsewhere = opened(other_firm, "ada@b.example", ada)
    anothers = opened(firm, "bob@a.example", UserFactory())
    request, row = SimpleNamespace(user=ada), SimpleNamespace(firm_id=firm.pk)
    field: Any = MailboxChoice(required=False)
    with firms_scope([firm.pk, other_firm.pk]):
        field.offer(request, None)
        assert [field.clean(one.pk) for one in (mine, elsewhere)] == [mine.pk, elsewhere.pk]
        field.offer(request, row)
        assert field.clean(str(mine.pk)) == mine.pk
        assert field.clean("") is None
        for refused in (elsewhere.pk, anothers.pk, "no id"):
            with pytest.raises(ValidationError):
                field.clean(refused)
