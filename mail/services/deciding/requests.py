"""Enqueues the jobs that judge threads."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.queue import EnqueueResult, enqueue
from jobs.states import Priority
from mail.llm.base import Category
from mail.models import Decision, Message
from mail.services.enqueue_after import enqueue_after_running
from mail.services.queueing import SMALLEST_PAGE, about_message


def enqueue_classifies(messages: Sequence[Message]) -> None:
    """Have the messages' threads judged, many by the page; one message of each thread is enough.

    Must run in the firm's scope.
    """
    if len(messages) < SMALLEST_PAGE:
        for message in messages:
            enqueue_classify(message)
        return
    enqueue(
        "classify.page",
        {
            "account_id": messages[0].account_id,
            "message_ids": [message.pk for message in messages],
        },
        priority=Priority.NORMAL,
    )


def enqueue_classify(message: Message) -> EnqueueResult:
    """Have the message's thread judged, unless it is already. Must run in the firm's scope."""
    return enqueue("classify", about_message(message), priority=Priority.NORMAL)


def enqueue_order(message: Message, category: Category | None) -> EnqueueResult:
    """Have the person's category given to the thread; if it is None, have the thread judged again.

    The person's last order counts: it replaces an order that has not begun, and follows one that
    has.
    Must run in the firm's scope.
    """
    payload = {**about_message(message), "force": True, "category": category}
    made = Decision.objects.filter(message__thread_id=message.thread_id)
    key = f"classify:{message.account_id}:{message.thread_id}:order"
    while True:
        result = enqueue_after_running(
            "classify", payload, priority=Priority.HIGH, idempotency_key=key
        )
        if result.created or not made.filter(job_id=result.job_id).exists():
            return result
        # The job only has to end, after a kill perhaps, so it does not carry out this order.
        key = f"classify:after:{result.job_id}"
