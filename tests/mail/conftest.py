"""A mailbox in a local Gmail of the test's own, and the account that reads it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pytest_django import Settings

from tests.mail.mail_kit import OWNER, Mailbox

if TYPE_CHECKING:
    from tenants.models import Firm


@pytest.fixture
def mailbox(firm: Firm, settings: Settings, tmp_path: Path) -> Mailbox:
    """Return an empty mailbox with its account."""
    from mail.gmail.connect import local_gmail
    from mail.services.accounts import open_account

    store = tmp_path / "gmail.sqlite3"
    settings.GMAIL_SIMULATOR_STORE = store
    return Mailbox(firm, open_account(firm, OWNER), local_gmail(store))
