"""Requests the onboarding of a mailbox."""

from __future__ import annotations

from jobs.queue import EnqueueResult, enqueue
from mail.models import MailAccount

ONBOARDING_TYPE = "email_processing"


def request_onboarding(account: MailAccount) -> EnqueueResult:
    """Have a new mailbox's last days read, and its owner told. Must run in the firm's scope."""
    return enqueue(ONBOARDING_TYPE, {"connection_id": account.pk})
