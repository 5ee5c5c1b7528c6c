"""A person connects their Gmail mailbox in a browser, sees suggestions, and switches it on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pytest_django import Settings

from mail.gmail.connect import local_gmail
from mail.gmail.simulator.server import SimulatorServer
from mail.labels import LABEL_NAMES
from mail.models import Connection, MailAccount
from tenants.models import Firm
from tests.e2e.conftest import Open, follow, work
from tests.mail.google_kit import serving
from tests.mail.mail_kit import Mailbox, letter, only, stored

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.req("M-01", "M-24", "O-03")]

ADDRESS = "olga@acme.example"


@pytest.fixture
def google(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SimulatorServer]:
    """Serve Gmail and Google's consent page, with one person's mailbox."""
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    settings.GMAIL_SIMULATOR_STORE = tmp_path / "gmail.sqlite3"
    simulator = local_gmail(settings.GMAIL_SIMULATOR_STORE)
    simulator.import_message(ADDRESS, letter("Price list", to=ADDRESS))
    with serving(simulator) as server:
        settings.GMAIL_BACKEND = "google"
        settings.GMAIL_API_BASE = server.url
        settings.GOOGLE_CLIENT_ID = "mailroom.apps.example"
        settings.GOOGLE_CLIENT_SECRET = "client-secret-canary"
        yield server


def connect(page: Page, *, allow: bool = True) -> None:
    """Go from the list of accounts to the consent page, answer it, and come back."""
    page.goto("/admin/mail/mailaccount/")
    follow(page.get_by_role("link", name="Connect a Gmail mailbox"))
    assert "gmail.modify" in page.locator(".queue-operation").inner_text()
    page.get_by_role("button", name="Connect a Gmail mailbox").click()
    page.get_by_text("This is the local Gmail simulator").wait_for()
    page.get_by_role("button", name="Allow" if allow else "Cancel").click()
    page.wait_for_url("**/admin/mail/mailaccount/**")


def switch(page: Page, name: str, **answers: str) -> None:
    follow(page.locator(".queue-buttons").get_by_role("link", name=name))
    for label, text in answers.items():
        page.get_by_label(label).fill(text)
    follow(page.get_by_role("button", name=name))
    page.wait_for_url("**/change/")


def test_a_mailbox_is_connected_tried_switched_on_and_disconnected(
    open_admin: Open, operator: str, google: SimulatorServer, firm: Firm
) -> None:
    page = open_admin(operator)
    connect(page, allow=False)
    page.get_by_text("You did not allow it").wait_for()
    assert stored(MailAccount) == []

    connect(page)
    page.get_by_text(f"Connected {ADDRESS}").wait_for()
    account = only(stored(MailAccount), address=ADDRESS)
    mailbox = Mailbox(firm, account, google.simulator)
    work()
    page.goto("/admin/mail/decision/")
    assert "Price list" in page.locator("#result_list").inner_text()
    (message,) = mailbox.messages()
    assert not mailbox.labels(message.gmail_message_id) & set(LABEL_NAMES.values())

    page.goto(f"/admin/mail/mailaccount/{account.pk}/change/")
    switch(page, "Make active")
    work()
    assert mailbox.labels(message.gmail_message_id) & set(LABEL_NAMES.values())
    switch(page, "Pause")
    assert "Paused by a person" in page.locator("#content").inner_text()

    page.get_by_role("link", name="Disconnect").click()
    page.get_by_label("Stored mail").select_option("now")
    page.get_by_label("Reason").fill("I leave the firm")
    page.get_by_role("button", name="Disconnect").click()
    page.get_by_text(f"Disconnected {ADDRESS}").wait_for()
    work()
    assert mailbox.messages() == []
    assert only(stored(MailAccount), address=ADDRESS).connection == Connection.DISCONNECTED


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_mailboxs_pages_fit_a_phone(
    open_admin: Open, operator: str, google: SimulatorServer, scheme: str
) -> None:
    page = open_admin(operator, "phone", scheme)
    connect(page)
    account = only(stored(MailAccount), address=ADDRESS)
    base = f"/admin/mail/mailaccount/{account.pk}"
    for address in (
        "/admin/mail/mailaccount/",
        "/admin/mail/mailaccount/connect/",
        f"{base}/change/",
        f"{base}/disconnect/",
        f"{base}/grant/",
    ):
        page.goto(address)
        overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0, address
