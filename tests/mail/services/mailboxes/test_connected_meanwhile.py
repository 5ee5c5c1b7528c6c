"""Connecting a mailbox respects changes made after it was chosen and before it is locked."""

from __future__ import annotations

import pytest

from mail.models import MailAccount, Mode
from mail.services.mailboxes import connect_account as connecting
from mail.services.mailboxes.connect_account import Consent
from tenants.audit import SERVICE
from tenants.scope import firm_scope
from tests.mail.google_kit import granted
from tests.mail.mail_kit import Mailbox

pytestmark = pytest.mark.django_db


def test_a_mode_set_at_that_moment_is_kept(
    connected: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = connecting.lock_mailbox

    def lock_after_a_click(account: MailAccount) -> list[MailAccount]:
        suggests = {"mode": Mode.SUGGEST, "active_since": None}
        MailAccount.objects.filter(pk=account.pk).update(**suggests)
        return lock(account)

    monkeypatch.setattr(connecting, "lock_mailbox", lock_after_a_click)
    address = connected.account.address
    with firm_scope(connected.firm):
        account = connecting.connect_account(
            connected.firm.pk, Consent(granted(address), address, []), by=SERVICE
        )
    assert account.mode == Mode.SUGGEST
