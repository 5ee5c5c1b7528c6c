"""The category that a person gives a thread by asking for an answer: it needs a response."""

from __future__ import annotations

from collections.abc import Sequence

from mail.llm.base import Category
from mail.models import Decision, DecisionSource, Message
from mail.services.drafting.task import DraftTask
from mail.services.operation import locked_row
from mail.services.rules.proposals import propose_rule
from mail.services.rules.rules import enabled_rules
from mail.services.rules.unseen import act_by_rules, held_unseen


def seen_by_person(task: DraftTask, messages: Sequence[Message]) -> Sequence[Message]:
    """Return the thread's messages, newest first, without those newer than `task.newest_id`.

    Newer messages came after the person looked at the thread, so they are judged by themselves.
    """
    newest = next((at for at, one in enumerate(messages) if one.pk == task.newest_id), 0)
    return messages[newest:]


def keep_persons_word(task: DraftTask, seen: Sequence[Message]) -> None:
    """Store the person's decision, and apply rules to the messages of `seen` that no verdict saw.

    Must run in the firm's scope, with the mailbox locked.
    """
    thread = locked_row(task.thread)
    unseen = held_unseen(task.account, thread, seen, None, among=enabled_rules(task.account))
    decision = Decision.objects.create(
        account=task.account,
        message=task.message,
        source=DecisionSource.PERSON,
        category=Category.NEEDS_RESPONSE,
        confidence=1.0,
        rationale="Asked for by the person in Gmail.",
        explanations={"salient_features": ["manual"]},
        job_id=task.job_id,
    )
    if task.thread.classification not in ("", Category.NEEDS_RESPONSE):
        propose_rule(task.account, task.message, Category.NEEDS_RESPONSE)
    act_by_rules(task.account, (task.message, []), unseen, decision)
