"""Which Gmail an account talks to."""

from __future__ import annotations

from mail.conf import gmail_simulator_store
from mail.gmail.client import GmailClient
from mail.gmail.connect import simulator_client
from mail.models import MailAccount


def gmail_of(account: MailAccount) -> GmailClient:
    """Return a client for the account's mailbox, to be used by the calling thread alone."""
    return simulator_client(account.address, gmail_simulator_store())
