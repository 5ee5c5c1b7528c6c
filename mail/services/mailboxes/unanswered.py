"""Mailboxes that Gmail leaves without an answer: one of them takes no second thread of a worker.

A request without an answer keeps its thread until the time is over. Jobs of one mailbox could so
keep every thread, and those of the others would wait.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from mail.errors import MailboxWaits
from mail.gmail.client import GmailClient
from mail.models import MailAccount
from mail.services.mailboxes.connection import SILENT_REASON, hold_mailbox
from tenants.scope import firm_scope

# How long the other jobs of the mailbox wait when one finds out whether Gmail answers again.
HOLD_SECONDS = 20.0

_lock = threading.Lock()
_silent: set[UUID] = set()
_at_work: Counter[UUID] = Counter()


@contextmanager
def alone_while_silent(account: MailAccount, gmail: GmailClient) -> Iterator[None]:
    """Let a job work on the mailbox: alone in this process, if Gmail left the last one waiting.

    Raises:
        MailboxWaits: another job finds out whether Gmail answers again.
    """
    if not _enter(account.pk):
        with firm_scope(account.firm_id):
            hold_mailbox(account, HOLD_SECONDS, SILENT_REASON)
        raise MailboxWaits(f"Gmail does not answer mailbox {account.pk}", seconds=HOLD_SECONDS)
    try:
        yield
    finally:
        _leave(account.pk, gmail)


def _enter(account_id: UUID) -> bool:
    with _lock:
        if account_id in _silent and _at_work[account_id]:
            return False
        _at_work[account_id] += 1
    return True


def _leave(account_id: UUID, gmail: GmailClient) -> None:
    with _lock:
        _at_work[account_id] -= 1
        if not _at_work[account_id]:
            del _at_work[account_id]
        if gmail.is_answered:
            _silent.discard(account_id)
        elif gmail.is_answered is False:
            _silent.add(account_id)
