"""`draft`, `manual_draft`, `rework`, `cleanup`: answers that are drafted, and what becomes of them."""

from __future__ import annotations

from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import Field, model_validator

from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.states import Category
from mail.gmail import units
from mail.job_handlers.base import (
    GMAIL_BREAKER,
    GMAIL_RETRY,
    AccountPayload,
    mailbox,
    mailbox_key,
    model_errors,
)
from mail.job_handlers.relabel import ThreadPayload
from mail.labels import LabelKey
from mail.models import MAX_GMAIL_ID_LENGTH
from mail.services.drafting.cleanup import check_sent, mark_done, take_back, withdraw_draft
from mail.services.drafting.jobs import (
    draft_answer,
    draft_on_request,
    rework_draft,
)
from mail.services.drafting.requests import OBEYED, CleanupAction
from mail.services.drafting.unstored import follow_unstored
from mail.services.queueing import thread_lock

# For the thread, related mail, the new draft and the draft that it replaces.
DRAFTING_UNITS = 4 * units.READ + 2 * units.DRAFT


class DraftPayload(AccountPayload):
    """A message and its thread, both by our ids."""

    message_id: UUID
    thread_id: UUID


class ManualDraftPayload(AccountPayload):
    """As DraftPayload; or, of a message that is not stored yet, Gmail's id and the label it was given."""

    message_id: UUID | None = None
    thread_id: UUID | None = None
    gmail_message_id: Annotated[str, Field(max_length=MAX_GMAIL_ID_LENGTH)] = ""
    # A label other than Needs Response asks for what that label means, not for a draft.
    label: LabelKey = LabelKey.NEEDS_RESPONSE

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        stored = self.message_id is not None and self.thread_id is not None
        if stored == bool(self.gmail_message_id):
            raise ValueError("give message_id and thread_id, or gmail_message_id")
        if self.label not in ({LabelKey.NEEDS_RESPONSE} if stored else OBEYED):
            raise ValueError("label: asks for nothing here")
        return self


class CleanupPayload(ThreadPayload):
    """A thread by our id, and what happened to it or to its draft."""

    action: CleanupAction
    # The newest message that is done; missing in jobs before 1.1, for which all messages are done.
    message_id: UUID | None = None
    # The draft to withdraw or take back; missing in jobs before 1.1, which mean the current draft.
    draft_id: UUID | None = None
    # A draft that is taken back has no row any more, so it is named by its thread in Gmail, its
    # Message-ID and the hash of its content.
    gmail_thread_id: Annotated[str, Field(max_length=MAX_GMAIL_ID_LENGTH)] = ""
    rfc822_id: str = ""
    content_hash: Annotated[str, Field(max_length=64)] = ""


def _manual_key(payload: ManualDraftPayload) -> str:
    # Keyed by message, because a thread may hold messages of several people who used a form.
    key = f"manual_draft:{payload.account_id}:{payload.message_id or payload.gmail_message_id}"
    return key if payload.label == LabelKey.NEEDS_RESPONSE else f"{key}:{payload.label}"


def _cleanup_key(payload: CleanupPayload) -> str:
    key = f"cleanup:{payload.account_id}:{payload.thread_id}:{payload.action}"
    subject = payload.draft_id or payload.message_id
    return key if subject is None else f"{key}:{subject}"


@job(
    "draft",
    category=Category.ORCHESTRATION,
    payload=DraftPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=DRAFTING_UNITS,
    breaker=GMAIL_BREAKER,
    lock_key=lambda payload: thread_lock(payload.thread_id),
    idempotency_key=lambda p: f"draft:{p.account_id}:{p.message_id}",
)
def draft(payload: DraftPayload, ctx: JobContext) -> dict[str, Any]:
    """Draft an answer in a thread that needs one."""
    with mailbox(payload) as (account, gmail), model_errors():
        return draft_answer(
            account,
            gmail,
            payload.thread_id,
            job_id=ctx.job_id,
            is_last_attempt=ctx.is_last_attempt,
        )


@job(
    "manual_draft",
    category=Category.ORCHESTRATION,
    payload=ManualDraftPayload,
    # 1.1 added the label; a worker with the version before leaves the job to a newer worker.
    version="1.1",
    upcasters={"1.0": dict},
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=DRAFTING_UNITS,
    breaker=GMAIL_BREAKER,
    lock_key=lambda p: thread_lock(p.thread_id) if p.thread_id else f"gmail:{p.gmail_message_id}",
    idempotency_key=_manual_key,
)
def manual_draft(payload: ManualDraftPayload, ctx: JobContext) -> dict[str, Any]:
    """Draft the answer that the person asked for by the label Needs Response.

    A message that is not stored yet is stored first; then the label that it was given is obeyed.
    """
    with mailbox(payload) as (account, gmail), model_errors():
        if payload.thread_id is None:
            return follow_unstored(account, gmail, payload.gmail_message_id, payload.label)
        return draft_on_request(
            account,
            gmail,
            payload.thread_id,
            job_id=ctx.job_id,
            is_last_attempt=ctx.is_last_attempt,
            message_id=payload.message_id,
        )


@job(
    "rework",
    category=Category.ORCHESTRATION,
    payload=ThreadPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=DRAFTING_UNITS,
    breaker=GMAIL_BREAKER,
    lock_key=lambda payload: thread_lock(payload.thread_id),
    idempotency_key=lambda p: f"rework:{p.account_id}:{p.thread_id}",
)
def rework(payload: ThreadPayload, ctx: JobContext) -> dict[str, Any]:
    """Write the thread's draft anew."""
    with mailbox(payload) as (account, gmail), model_errors():
        return rework_draft(
            account,
            gmail,
            payload.thread_id,
            job_id=ctx.job_id,
            is_last_attempt=ctx.is_last_attempt,
        )


@job(
    "cleanup",
    category=Category.ORCHESTRATION,
    payload=CleanupPayload,
    # 1.1 added both ids, 1.2 drafts without a row; an older worker leaves the job to a newer one.
    version="1.2",
    upcasters={"1.0": dict, "1.1": dict},
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=units.READ + units.DRAFT,
    breaker=GMAIL_BREAKER,
    lock_key=lambda payload: thread_lock(payload.thread_id),
    idempotency_key=_cleanup_key,
)
def cleanup(payload: CleanupPayload, ctx: JobContext) -> dict[str, Any] | None:
    """Follow what became of a thread or of its draft."""
    with mailbox(payload) as (account, gmail):
        if payload.action == "done":
            # Completed with what it asks for, because it would ask for that again.
            with ctx.transaction() as tx:
                tx.result = mark_done(account, payload.thread_id, payload.message_id)
            return None
        if payload.action == "take_back":
            return take_back(
                account,
                gmail,
                payload.thread_id,
                gmail_thread_id=payload.gmail_thread_id,
                rfc822_id=payload.rfc822_id,
                content_hash=payload.content_hash,
            )
        if payload.action == "withdraw":
            return withdraw_draft(
                account, gmail, payload.thread_id, draft_id=payload.draft_id, job_id=ctx.job_id
            )
        return check_sent(account, gmail, payload.thread_id)
