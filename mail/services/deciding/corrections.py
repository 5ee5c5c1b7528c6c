"""Lets the person correct a thread's category, or have the thread judged once more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from jobs.queue import EnqueueResult
from mail.llm.base import Category
from mail.models import Decision, DecisionSource, MailAccount, Message
from mail.services.deciding.classify import Skipped, decide, open_case, result_of, ruled
from mail.services.deciding.requests import enqueue_order
from mail.services.operation import audit
from mail.services.rules.proposals import propose_rule
from mail.services.rules.rules import enabled_rules
from mail.services.rules.unseen import held_unseen, lock_for_answers
from tenants.audit import SERVICE, Actor
from tenants.scope import firm_scope


def reclassify(
    message: Message, *, category: str = "", reason: str = "", by: Actor = SERVICE
) -> EnqueueResult:
    """Give the message's thread this category; if that is empty, have it judged once more."""
    with firm_scope(message.firm_id):
        wanted = Category(category) if category else None
        result = enqueue_order(message, wanted)
        audit(
            "message.reclassify",
            message,
            by,
            reason,
            before={"category": message.thread.classification},
            after={"category": category, "job": str(result.job_id)},
        )
    return result


def decide_for_person(
    account: MailAccount, thread_id: UUID, message_id: UUID, category: Category, *, job_id: UUID
) -> dict[str, Any]:
    """Store the category that the person gave, propose a rule for it; return the job's result.

    Must run under the thread's lock.

    Raises:
        RowGone: the mailbox has no such message in this thread.
    """
    with firm_scope(account.firm_id):
        case = open_case(account, thread_id, message_id, job_id=job_id, force=True)
        if isinstance(case, Skipped):
            return case.asresult_of()
        # The person may have ordered again while this job waited for a retry. Job ids grow.
        said = Decision.objects.filter(account=account, message__thread_id=thread_id)
        if said.filter(source=DecisionSource.PERSON, job_id__gt=job_id).exists():
            return Skipped("The person has said since what the thread is").asresult_of()
        if case.thread.classification == category and not case.reopened:
            return Skipped("The thread is of that category already").asresult_of()
        # Earlier verdicts have applied the rules to all messages but the unseen ones.
        among = enabled_rules(account)
        unseen = held_unseen(account, case.thread, case.messages, None, among=among)
        case = replace(case, rules=[], unseen=unseen)
        lock_for_answers(account, case.held)
        verdict = ruled(category, "The person said so.", "person", case.context)
        decision = decide(account, case, verdict, source=DecisionSource.PERSON, job_id=job_id)
        if case.thread.classification != category:
            # A conversation may be stored message by message: that is still one correction.
            propose_rule(account, case.target, category)
    return result_of(decision)
