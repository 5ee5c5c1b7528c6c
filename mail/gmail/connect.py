"""Ways to a GmailClient: over the local simulator, or to Google with a person's credentials."""

from __future__ import annotations

import functools
from pathlib import Path

from google.auth.credentials import Credentials
from google_auth_httplib2 import AuthorizedHttp

from mail.gmail.client import GmailClient
from mail.gmail.send_once import SendOnceHttp
from mail.gmail.simulator.api import GmailSimulator
from mail.gmail.simulator.transport import SimulatorHttp

_TIMEOUT_SECONDS = 60


def simulator_client(address: str, store_path: Path | str) -> GmailClient:
    """Return a client of a mailbox in the local simulator's file, made empty when missing."""
    simulator = local_gmail(Path(store_path))
    return GmailClient(lambda: SimulatorHttp(simulator, address))


@functools.lru_cache(maxsize=32)
def local_gmail(store_path: Path) -> GmailSimulator:
    """Return this process's simulator over a file, opened once."""
    return GmailSimulator(store_path)


def google_client(credentials: Credentials) -> GmailClient:
    """Return a client of the mailbox these credentials open at Google."""
    return GmailClient(
        lambda: AuthorizedHttp(credentials, http=SendOnceHttp(timeout=_TIMEOUT_SECONDS))
    )
