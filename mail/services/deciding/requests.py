"""How the jobs that judge threads are put into the queue."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.queue import EnqueueResult, enqueue
from jobs.states import Priority
from mail.llm.base import Category
from mail.models import Message
from mail.services.queueing import SMALLEST_PAGE, about_message


def enqueue_classifies(messages: Sequence[Message]) -> None:
    """Have the messages' threads judged, many by the page; a message of each thread is enough.

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


def enqueue_classify(
    message: Message, *, force: bool = False, category: Category | None = None
) -> EnqueueResult:
    """Have the message's thread judged, or be of the category that the person says it is of.

    Must run in the firm's scope.
    """
    payload = {**about_message(message), "force": force}
    if category is None:
        return enqueue("classify", payload, priority=Priority.NORMAL)
    return enqueue("classify", {**payload, "category": category}, priority=Priority.HIGH)
