"""Checks whether a thread has changed while it was judged."""

from __future__ import annotations

from collections.abc import Sequence

from mail.errors import MailboxWaits
from mail.models import MailAccount, MailThread, Message
from mail.services.operation import locked_row
from mail.services.rules.unseen import unseen_by_verdicts

# After how many seconds the thread is judged again.
LATE_SECONDS = 1.0


def is_overtaken(account: MailAccount, thread: MailThread, messages: Sequence[Message]) -> bool:
    """Lock the thread; say whether it was judged meanwhile with a message that is not among these.

    That can happen because pages of threads are judged without locks. Must run in the firm's scope.

    Raises:
        RowGone: the thread is gone.
        MailboxWaits: older mail was stored meanwhile, on which rules have to act.
    """
    upto = locked_row(thread).classified_upto_id
    if upto is not None and upto not in {message.pk for message in messages}:
        return True
    if unseen_by_verdicts(account, {thread.pk: messages}):
        raise MailboxWaits("Older mail of the thread was stored meanwhile", seconds=LATE_SECONDS)
    return False
