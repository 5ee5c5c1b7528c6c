"""`classify` and `classify.page`: judge what threads ask of the mailbox's owner."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pydantic import Field

from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.states import Category
from mail.job_handlers.base import GMAIL_RETRY, AccountPayload, mailbox, mailbox_key, model_errors
from mail.llm.base import Category as MailCategory
from mail.llm.offline import OfflineClassifier
from mail.services.deciding.classifiers import asks_a_model, classifier_for
from mail.services.deciding.classify import classify_thread
from mail.services.deciding.classify_page import classify_each, classify_page
from mail.services.deciding.corrections import decide_for_person
from mail.services.queueing import PAGE, thread_lock


class ClassifyPayload(AccountPayload):
    """A message and its thread, both by our ids; `force` judges again what is judged already.

    `category` is what the person decided: nobody else is asked.
    """

    message_id: UUID
    thread_id: UUID
    force: bool = False
    category: MailCategory | None = None


class ClassifyPagePayload(AccountPayload):
    """Messages by our ids, one of each thread."""

    message_ids: list[UUID] = Field(min_length=1, max_length=PAGE)


@job(
    "classify",
    category=Category.ORCHESTRATION,
    payload=ClassifyPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    lock_key=lambda payload: thread_lock(payload.thread_id),
    # The key has the category, so that a waiting job does not swallow what the person decided.
    idempotency_key=lambda p: f"classify:{p.account_id}:{p.message_id}:{p.category or ''}".rstrip(
        ":"
    ),
)
def classify(payload: ClassifyPayload, ctx: JobContext) -> dict[str, Any]:
    """Judge the message's thread, and request the labels that show the verdict."""
    with mailbox(payload) as (account, _), model_errors():
        if payload.category is not None:
            return decide_for_person(
                account,
                payload.thread_id,
                payload.message_id,
                payload.category,
                job_id=ctx.job_id,
            )
        return classify_thread(
            account,
            payload.thread_id,
            payload.message_id,
            classifier_for(account, message_id=payload.message_id, job_id=ctx.job_id),
            job_id=ctx.job_id,
            force=payload.force,
        )


@job(
    "classify.page",
    category=Category.ORCHESTRATION,
    payload=ClassifyPagePayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
)
def classify_many(payload: ClassifyPagePayload, ctx: JobContext) -> dict[str, Any]:
    """Judge the messages' threads, and request the labels that show the verdicts."""
    with mailbox(payload) as (account, _):
        if asks_a_model():
            return classify_each(account, payload.message_ids)
        return classify_page(account, payload.message_ids, OfflineClassifier(), job_id=ctx.job_id)
