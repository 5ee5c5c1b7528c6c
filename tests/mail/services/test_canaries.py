"""No token and no client secret is readable where things are stored, logged, raised or shown."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from mail.gmail.errors import GmailNeedsReauth
from mail.models import MailCredential
from mail.services.queueing import request_sync
from tenants.encryption import decrypt_field
from tenants.scope import all_firms, firm_scope
from tests.factories.tenants import UserFactory
from tests.mail.google_kit import granted
from tests.mail.mail_kit import Mailbox, drain, stored
from tests.queue_kit import work_off

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-01", "J-13")]


def secrets_of(mailbox: Mailbox) -> list[str]:
    (credential,) = stored(MailCredential)
    names = ("access_token", "refresh_token")
    return [*(decrypt_field(credential, name) for name in names), "client-secret-canary"]


def database_text() -> str:
    """Return every value of every table."""
    found: list[str] = []
    with all_firms("test"), connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            found += [str(value) for row in cursor.fetchall() for value in row]
    return "\n".join(found)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Record every log line that the configuration allows, also at DEBUG."""
    with caplog.at_level(logging.DEBUG):
        yield caplog


def test_tokens_are_in_no_table_and_no_log_line(
    connected: Mailbox, log: pytest.LogCaptureFixture
) -> None:
    connected.receive()
    granted(connected.account.address)
    with firm_scope(connected.firm):
        request_sync(connected.account)
    connected.simulator.expire_access_tokens(connected.account.address)
    drain()
    connected.simulator.expire_access_tokens(connected.account.address)
    connected.simulator.revoke_grants(connected.account.address)
    with firm_scope(connected.firm):
        request_sync(connected.account)
    work_off()

    assert "needs_reauth" in database_text()
    for secret in secrets_of(connected):
        assert secret not in database_text()
        assert secret not in log.text
    assert "ya29." not in log.text
    assert "1//" not in log.text


def test_tokens_are_on_no_page_and_in_no_error(connected: Mailbox) -> None:
    client = Client()
    client.force_login(UserFactory(username="root", is_staff=True, is_superuser=True))
    pages = [
        reverse("admin:mail_mailaccount_changelist"),
        *(
            reverse(f"admin:mail_mailaccount_{page}", args=[connected.account.pk])
            for page in ("change", "disconnect", "reconnect")
        ),
    ]
    shown = "".join(client.get(page).content.decode() for page in pages)
    connected.simulator.revoke_grants(connected.account.address)
    with pytest.raises(GmailNeedsReauth) as caught:
        connected.gmail.profile()
    shown += "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    (credential,) = stored(MailCredential)
    for secret in [*secrets_of(connected), credential.refresh_token]:
        assert secret not in shown
