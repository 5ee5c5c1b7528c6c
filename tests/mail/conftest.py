"""A mailbox in a local Gmail of the test's own, and the account that reads it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone
from pytest_django import Settings

from mail.gmail.simulator import push
from mail.gmail.simulator.server import SimulatorServer
from tests.mail.google_kit import granted, serving
from tests.mail.mail_kit import OWNER, Mailbox
from tests.mail.push_kit import AUDIENCE, SERVICE_ACCOUNT, TOPIC, Pusher

if TYPE_CHECKING:
    from tenants.models import Firm


@pytest.fixture
def mailbox(firm: Firm, settings: Settings, tmp_path: Path) -> Mailbox:
    """Return an empty mailbox with its account."""
    from mail.gmail.connect import local_gmail
    from mail.services.mailboxes.accounts import open_account

    store = tmp_path / "gmail.sqlite3"
    settings.GMAIL_SIMULATOR_STORE = store
    return Mailbox(firm, open_account(firm, OWNER), local_gmail(store))


@pytest.fixture
def google(
    mailbox: Mailbox, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SimulatorServer]:
    """Serve the mailbox over HTTP as if it were Google's; no account is connected."""
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    with serving(mailbox.simulator) as server:
        settings.GMAIL_BACKEND = "google"
        settings.GMAIL_API_BASE = server.url
        settings.GOOGLE_CLIENT_ID = "mailroom.apps.example"
        settings.GOOGLE_CLIENT_SECRET = "client-secret-canary"
        yield server


@pytest.fixture
def connected(mailbox: Mailbox, google: SimulatorServer) -> Mailbox:
    """Return the mailbox, connected over HTTP with a stored grant."""
    from mail.services.mailboxes.credentials import store_grant
    from tenants.scope import firm_scope

    grant = granted(mailbox.account.address)
    with firm_scope(mailbox.firm):
        store_grant(mailbox.account, grant)
    return mailbox


# The tests share one RSA key, because making one takes longer than a test.
signing_key = functools.cache(push._new_key)


@pytest.fixture
def pusher(mailbox: Mailbox, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Pusher:
    """Configure notifications, and return what pushes them."""
    monkeypatch.setattr(push, "_new_key", signing_key)
    settings.GMAIL_PUBSUB_TOPIC = TOPIC
    settings.GMAIL_PUBSUB_AUDIENCE = AUDIENCE
    settings.GMAIL_PUBSUB_SERVICE_ACCOUNT = SERVICE_ACCOUNT
    return Pusher(mailbox.simulator)


@pytest.fixture
def one_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin the budgets' day twelve hours ago, so that it does not end while the test runs."""
    from mail.services.deciding import budget

    began_at = timezone.now() - timedelta(hours=12)
    monkeypatch.setattr(budget, "_today", lambda: began_at)


@pytest.fixture
def firm_admin(firm: Firm) -> str:
    """Return the address of the firm's admin."""
    from tenants.models import Role
    from tests.factories.tenants import UserFactory

    address = "ada@acme.example"
    UserFactory(username=address, email=address, member_of=firm, member_of__role=Role.ADMIN)
    return address
