"""A simulator in a temporary file, and Google's client and ours that use it."""

from __future__ import annotations

import pytest
from googleapiclient.discovery import build

from mail.gmail.client import GmailClient
from mail.gmail.simulator.api import GmailSimulator
from tests.mail.gmail.mailbox_kit import CheckedHttp


@pytest.fixture
def simulator(tmp_path) -> GmailSimulator:
    return GmailSimulator(tmp_path / "gmail.sqlite3")


@pytest.fixture
def http(simulator) -> CheckedHttp:
    return CheckedHttp(simulator)


@pytest.fixture
def users(http):
    """The ``users`` resource of Google's own client."""
    return build("gmail", "v1", http=http, static_discovery=True, cache_discovery=False).users()


@pytest.fixture
def gmail(http) -> GmailClient:
    return GmailClient(lambda: http)
