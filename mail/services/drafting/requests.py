"""Enqueues the jobs of drafts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal
from uuid import UUID

from django.db.models import Q

from jobs.queue import EnqueueResult, enqueue
from jobs.states import Priority
from mail.labels import LabelKey
from mail.llm.base import Category
from mail.models import Draft, DraftOrigin, DraftStatus, MailAccount, MailThread, Message
from mail.services.queueing import about_message
from mail.services.timelines.threads import is_discarded, newest_first

CleanupAction = Literal["done", "check_sent", "withdraw", "take_back"]

# The labels that are obeyed on mail that is not stored; it has no draft of ours to be reworked.
OBEYED: Final = frozenset({LabelKey.DONE, *(category.label for category in Category)})


def enqueue_draft(message: Message) -> EnqueueResult:
    """Have an answer to the message drafted. Must run in the firm's scope."""
    return enqueue("draft", about_message(message), priority=Priority.NORMAL)


def enqueue_manual_draft(message: Message) -> EnqueueResult:
    """Have an answer drafted that the person asked for. Must run in the firm's scope."""
    return _enqueue_another("manual_draft", about_message(message), message.thread_id)


def enqueue_unstored(account_id: UUID, gmail_message_id: str, order: LabelKey) -> EnqueueResult:
    """Have a message stored, then done what its label asks for. Must run in the firm's scope."""
    about = {"account_id": account_id, "gmail_message_id": gmail_message_id}
    return enqueue("manual_draft", {**about, "label": order}, priority=Priority.HIGH)


def enqueue_rework(thread: MailThread) -> EnqueueResult:
    """Have the thread's draft written anew. Must run in the firm's scope."""
    payload = {"account_id": thread.account_id, "thread_id": thread.pk}
    return _enqueue_another("rework", payload, thread.pk)


def _enqueue_another(
    job_type: str, payload: Mapping[str, object], thread_id: UUID
) -> EnqueueResult:
    """Have a draft written that the person asks for now, by a job that has not written one yet."""
    written = Draft.objects.filter(thread_id=thread_id, written_at__isnull=False)
    key: str | None = None
    while True:
        result = enqueue(job_type, payload, priority=Priority.HIGH, idempotency_key=key)
        if result.created or not written.filter(job_id=result.job_id).exists():
            return result
        # The job only has to end, after a kill perhaps, so it does not do what is asked now.
        key = f"{job_type}:after:{result.job_id}"


def enqueue_sent_check(account_id: UUID, thread_id: UUID) -> EnqueueResult:
    """Have checked whether the thread's draft was sent. Must run in the firm's scope."""
    payload = {"account_id": account_id, "thread_id": thread_id, "action": "check_sent"}
    return enqueue("cleanup", payload, priority=Priority.NORMAL)


def enqueue_done(thread: MailThread, *, upto: Message | None = None) -> EnqueueResult:
    """Have a thread that the person marked done cleaned up. Must run in the firm's scope.

    `upto` is the newest message at that time, if others may have come since.
    """
    newest = newest_first(thread).values_list("pk", flat=True).first() if upto is None else upto.pk
    about = {"account_id": thread.account_id, "thread_id": thread.pk, "message_id": newest}
    return enqueue("cleanup", {**about, "action": "done"}, priority=Priority.NORMAL)


def enqueue_withdrawal(draft: Draft) -> EnqueueResult:
    """Have this draft, and no later one, withdrawn. Must run in the firm's scope."""
    about = {"account_id": draft.account_id, "thread_id": draft.thread_id, "draft_id": draft.pk}
    return enqueue("cleanup", {**about, "action": "withdraw"}, priority=Priority.NORMAL)


def enqueue_take_back(draft: Draft) -> EnqueueResult:
    """Have a draft withdrawn whose row is deleted with its mail. Must run in the firm's scope."""
    thread = draft.thread
    about = {"account_id": draft.account_id, "thread_id": thread.pk, "draft_id": draft.pk}
    written = {
        "gmail_thread_id": thread.gmail_thread_id,
        "rfc822_id": draft.rfc822_id,
        "content_hash": draft.content_hash,
    }
    payload = {**about, **written, "action": "take_back"}
    return enqueue("cleanup", payload, priority=Priority.NORMAL)


def enqueue_missed_withdrawals(account: MailAccount) -> None:
    """Have drafts withdrawn whose mail was moved to trash or spam while Mailroom only suggested.

    Must run in the firm's scope.
    """
    standing = [DraftStatus.READY, DraftStatus.WRITING]
    drafts = Draft.objects.filter(account=account, status__in=standing).select_related("message")
    for draft in drafts.only("firm", "account", "thread", "message__labels"):
        if is_discarded(draft.message):
            enqueue_withdrawal(draft)


def enqueue_withdrawals(thread: MailThread) -> None:
    """Have the drafts of a thread that needs none withdrawn. Must run in the firm's scope.

    A draft that the person asked for is still written, because it holds their notes.
    """
    writing = Q(status=DraftStatus.WRITING) & ~Q(origin=DraftOrigin.MANUAL)
    drafts = Draft.objects.filter(Q(status=DraftStatus.READY) | writing, thread=thread)
    for draft in drafts.only("firm", "account", "thread"):
        enqueue_withdrawal(draft)
