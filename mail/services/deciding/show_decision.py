"""Shows in Gmail a decision that could not be shown when it was made."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from mail.llm.base import Category
from mail.models import (
    Decision,
    Draft,
    DraftStatus,
    MailAccount,
    MailThread,
    Message,
    ThreadStatus,
)
from mail.services.deciding.classify import OUTLINE, follow_decision
from mail.services.deciding.relabel import relabel_thread, show_state
from mail.services.drafting.task import label_beside
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
            return {"skipped": True, "reason": "The mailbox is set to suggest only, or is paused"}
        messages = list(Message.objects.filter(account=account, thread_id=thread_id).only(*OUTLINE))
        thread = MailThread.objects.get(pk=thread_id)
        if thread.status == ThreadStatus.ARCHIVED:
            # The person marked it done, maybe while Mailroom only suggested.
            show_state(account.pk, messages, None)
        elif thread.status != ThreadStatus.PENDING and (draft := _last_draft(thread)):
            # Once the thread had a draft, whatever became of that, the decision's label is not
            # shown again.
            if draft.status == DraftStatus.READY and thread.status == ThreadStatus.DRAFTED:
                show_state(account.pk, messages, (draft.message_id, label_beside(draft)))
        else:
            relabel_thread(decision, messages)
            follow_decision(decision)
    return {"decision_id": str(decision.pk)}


def _last_draft(thread: MailThread) -> Draft | None:
    """Return the last draft of a thread that needs a response; None if it never had one."""
    if thread.classification != Category.NEEDS_RESPONSE:
        return None
    draft: Draft | None = Draft.objects.filter(thread=thread).order_by("-pk").first()
    return draft
