"""Chooses the Gmail that an account talks to: Google's, or the local simulator."""

from __future__ import annotations

from mail.conf import gmail_api_base, gmail_simulator_store, uses_google
from mail.gmail.client import GmailClient
from mail.gmail.connect import google_client, simulator_client
from mail.models import MailAccount
from mail.services.mailboxes.credentials import StoredToken


def gmail_of(account: MailAccount) -> GmailClient:
    """Return a client for the account's mailbox, which only the calling thread may use."""
    if uses_google():
        return google_client(StoredToken(account), endpoint=gmail_api_base())
    return simulator_client(account.address, gmail_simulator_store())
