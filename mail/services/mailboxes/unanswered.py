"""Limits the threads of a worker that a mailbox may occupy while Gmail does not answer it.

A request without an answer occupies its thread until the timeout. So jobs of one mailbox could
occupy every thread, and other mailboxes' jobs would wait. A mailbox that Gmail left without an
answer gets one thread at a time; until the first answer, two.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from mail.errors import MailboxWaits
from mail.gmail.client import GmailClient
from mail.models import MailAccount
from mail.services.mailboxes.connection import SILENT_REASON, hold_mailbox
from tenants.scope import firm_scope

# How long the mailbox's other jobs wait while one finds out whether Gmail answers again.
HOLD_SECONDS = 20.0
# How many jobs of a mailbox may wait for a first answer at once.
MOST_ASKING = 2
# A further job waits so long on its thread for an answer to those; then it and the jobs that are
# not at work wait in the queue.
PATIENCE_SECONDS = 1.0
LATER_SECONDS = 2.0
# A job that began less than this ago may not have sent its request yet.
BEGINNING_SECONDS = 0.1
LOOK_SECONDS = 0.02


@dataclass(frozen=True, eq=False)
class _JobAtWork:
    gmail: GmailClient
    begun: float = field(default_factory=time.monotonic)

    @property
    def may_wait_in_vain(self) -> bool:
        """Whether Gmail has not answered the job yet, and it waits for an answer or soon will."""
        begins = time.monotonic() - self.begun < BEGINNING_SECONDS
        return self.gmail.exchange.is_answered is None and (
            self.gmail.exchange.is_waiting or begins
        )


_changed = threading.Condition()
_silent: set[UUID] = set()
_at_work: dict[UUID, list[_JobAtWork]] = defaultdict(list)


@contextmanager
def alone_while_silent(account: MailAccount, gmail: GmailClient) -> Iterator[None]:
    """Let a job work on the mailbox; alone in this process, if Gmail left the last job unanswered.

    Raises:
        MailboxWaits: other jobs find out whether Gmail answers.
    """
    job = _JobAtWork(gmail)
    # A timeout may interrupt the job at any statement; `_leave` removes it in any case.
    try:
        try:
            _enter(account.pk, job)
        except MailboxWaits as wait:
            with firm_scope(account.firm_id):
                hold_mailbox(account, wait.seconds, SILENT_REASON)
            raise
        yield
    finally:
        _leave(account.pk, job)


def _enter(account_id: UUID, job: _JobAtWork) -> None:
    """Register the job as at work.

    Raises:
        MailboxWaits: other jobs find out whether Gmail answers; jobs not at work have to wait.
    """
    silence = f"Gmail does not answer mailbox {account_id}"
    until = time.monotonic() + PATIENCE_SECONDS
    with _changed:
        while True:
            others = _at_work[account_id]
            if others and account_id in _silent:
                raise MailboxWaits(silence, seconds=HOLD_SECONDS)
            if sum(one.may_wait_in_vain for one in others) < MOST_ASKING:
                others.append(job)
                return
            if time.monotonic() > until:
                raise MailboxWaits(silence, seconds=LATER_SECONDS)
            _changed.wait(LOOK_SECONDS)


def _leave(account_id: UUID, job: _JobAtWork) -> None:
    with _changed:
        others = _at_work[account_id]
        if job in others:
            others.remove(job)
        if not others:
            del _at_work[account_id]
        if job.gmail.exchange.is_answered:
            _silent.discard(account_id)
        elif job.gmail.exchange.is_answered is False:
            _silent.add(account_id)
        _changed.notify_all()
