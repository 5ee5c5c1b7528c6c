"""Shows in Gmail what was decided of a thread before it could be shown."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from mail.models import Decision, MailAccount, MailThread, Message, ThreadStatus
from mail.services.deciding.classify import OUTLINE, follow_decision
from mail.services.deciding.relabel import relabel_thread, show_state
from mail.services.mailboxes.modes import may_label
from tenants.scope import firm_scope


def show_decision(account: MailAccount, thread_id: UUID) -> dict[str, Any]:
    """Have the thread's last decision shown in Gmail; return the job's result.

    Must run under the thread's lock.
    """
    with firm_scope(account.firm_id):
        decisions = Decision.objects.filter(account=account, message__thread_id=thread_id)
        decision = decisions.select_related("message").order_by("-pk").first()
        if decision is None or not may_label(account, decision.message):
            return {"skipped": True, "reason": "The mailbox suggests only, or is paused"}
        messages = list(Message.objects.filter(account=account, thread_id=thread_id).only(*OUTLINE))
        if MailThread.objects.filter(pk=thread_id, status=ThreadStatus.ARCHIVED).exists():
            # The person is done with it, and may have said so while Mailroom only suggested.
            show_state(account.pk, messages, None)
        else:
            relabel_thread(decision, messages)
            follow_decision(decision)
    return {"decision_id": str(decision.pk)}
