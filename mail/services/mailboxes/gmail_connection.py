"""Which Gmail an account talks to."""

from __future__ import annotations

from mail.conf import gmail_api_base, gmail_simulator_store, uses_google
from mail.gmail.client import GmailClient
from mail.gmail.connect import google_client, simulator_client
from mail.models import MailAccount
from mail.services.mailboxes.credentials import StoredToken


def gmail_of(account: MailAccount) -> GmailClient:
    """Return a client for the account's mailbox, to be used by the calling thread alone."""
    if uses_google():
        return google_client(StoredToken(account), endpoint=gmail_api_base())
    return simulator_client(account.address, gmail_simulator_store())
