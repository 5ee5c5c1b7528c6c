"""The three ways to a draft: a decision, the label that the person gives, and a rework."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from mail.errors import RowGone
from mail.gmail.client import GmailClient
from mail.labels import LabelKey
from mail.llm.base import Category
from mail.models import (
    Draft,
    DraftOrigin,
    DraftStatus,
    EventType,
    MailAccount,
    MailThread,
    Message,
    ThreadStatus,
)
from mail.services.deciding.corrections import decide_for_person
from mail.services.deciding.relabel import show_state
from mail.services.drafting.gmail_drafts import order_in, read_draft
from mail.services.drafting.persons_drafts import (
    foreign_drafts,
    note_edits,
    noted_order,
    persons_drafts,
)
from mail.services.drafting.reply_plan import settings_for
from mail.services.drafting.retire import ends_what_it_began
from mail.services.drafting.task import (
    MOST_REWORKS,
    DraftTask,
    drafted,
    is_answered_since,
    refuse,
    skipped,
    why_not_answered,
)
from mail.services.drafting.write_draft import keep_persons_draft, write_draft
from mail.services.mailboxes.accounts import own_addresses
from mail.services.mailboxes.modes import SUGGESTS_ONLY, suggests_only
from mail.services.timelines.correspondents import outline_with_target
from mail.services.timelines.events import record_event
from mail.services.timelines.threads import labelled_messages, newest_first, newest_to_answer
from tenants.scope import firm_scope


@ends_what_it_began
def draft_answer(
    account: MailAccount,
    gmail: GmailClient,
    thread_id: UUID,
    *,
    job_id: UUID,
    is_last_attempt: bool,
) -> dict[str, Any]:
    """Draft an answer in a thread that waits for one; return the job's result.

    Must run under the thread's lock.
    """
    if suggests_only(account):
        return skipped(SUGGESTS_ONLY)
    with firm_scope(account.firm_id):
        thread = _thread(account, thread_id)
        if thread.status != ThreadStatus.PENDING or thread.classification != (
            Category.NEEDS_RESPONSE
        ):
            return skipped(f"The thread is {thread.get_status_display().lower()}")
        message = _target(thread)
        obstacle = _obstacle(account, message)
        if obstacle or message is None:
            MailThread.objects.filter(pk=thread.pk).update(status=ThreadStatus.SKIPPED)
            return skipped(obstacle) if message is None else refuse(account, message, obstacle)
    task = DraftTask(
        account=account,
        gmail=gmail,
        thread=thread,
        message=message,
        origin=DraftOrigin.AUTOMATIC,
        job_id=job_id,
        is_last_attempt=is_last_attempt,
    )
    if _persons_draft(task):
        with firm_scope(account.firm_id):
            return keep_persons_draft(task)
    return write_draft(task)


def _obstacle(account: MailAccount, message: Message | None) -> str:
    if message is None:
        return "The thread has no message from anybody else"
    if not settings_for(account).enabled:
        return "Drafts are switched off for the mailbox"
    return why_not_answered(account, message)


def _persons_draft(task: DraftTask) -> bool:
    """Say whether the person has a draft in the thread: their own, or ours that they edited."""
    with firm_scope(task.account.firm_id):
        writing = Draft.objects.filter(thread=task.thread, status=DraftStatus.WRITING)
        if writing.exists():
            # An earlier attempt has checked this already, and perhaps written its draft.
            return False
    found = persons_drafts(task)
    note_edits(task, found)
    return bool(found)


@ends_what_it_began
def draft_on_request(
    account: MailAccount,
    gmail: GmailClient,
    thread_id: UUID,
    *,
    job_id: UUID,
    is_last_attempt: bool,
    message_id: UUID | None = None,
) -> dict[str, Any]:
    """Draft the answer that the person asked for by the label; return the job's result.

    `message_id` is the message with the label: if several people use one form, the label names the
    one to be answered. The person's notes, in a draft of their own, say what to write. Must run
    under the thread's lock.
    """
    with firm_scope(account.firm_id):
        thread = _thread(account, thread_id)
        if (written := _written_by(thread, job_id)) is not None:
            return drafted(written)
        if _is_asked_again(thread, job_id):
            return skipped("The person has asked for another answer since")
        message, suggests = _target(thread, message_id), suggests_only(account)
        if thread.status == ThreadStatus.DRAFTED:
            left = _leave_drafted(account, thread, message, job_id, suggests=suggests)
            if left is not None:
                return left
        if message is None:
            return skipped("The thread has no message from anybody else")
        if is_answered_since(account, message, job_id):
            return skipped("The person has answered since")
        newest_id = newest_first(thread).values_list("pk", flat=True).first()
        reason = SUGGESTS_ONLY if suggests else why_not_answered(account, message)
        if reason:
            # There is no draft, but the person has still said what the thread is.
            decide_for_person(
                account, thread.pk, message.pk, Category.NEEDS_RESPONSE, job_id=job_id
            )
            return skipped(reason) if suggests else refuse(account, message, reason)
    task = DraftTask(
        account=account,
        gmail=gmail,
        thread=thread,
        message=message,
        origin=DraftOrigin.MANUAL,
        job_id=job_id,
        is_last_attempt=is_last_attempt,
        newest_id=newest_id,
    )
    notes = next(iter(foreign_drafts(task)), None)
    return write_draft(replace(task, instruction=noted_order(task, notes)), notes)


def _is_asked_again(thread: MailThread, job_id: UUID) -> bool:
    """Say whether the person asked for another answer while this job waited for a retry."""
    drafts = Draft.objects.filter(thread=thread, origin=DraftOrigin.MANUAL)
    # Job ids grow.
    return bool(drafts.filter(job_id__gt=job_id).exists())


def _leave_drafted(
    account: MailAccount,
    thread: MailThread,
    target: Message | None,
    job_id: UUID,
    *,
    suggests: bool,
) -> dict[str, Any] | None:
    """Leave a drafted thread as it is and return the job's result; None if it needs another answer.

    The label that asked for a draft is replaced by the label of the draft that exists. If several
    people use one form, the draft may answer another of them. Must run in the firm's scope.
    """
    drafts = Draft.objects.filter(thread=thread)
    ready: Draft | None = drafts.filter(status=DraftStatus.READY).first()
    writing = drafts.filter(status=DraftStatus.WRITING).exclude(job_id=job_id)
    if ready is None and not writing.exists():
        # The draft's row was deleted with its message, or an earlier attempt has withdrawn it.
        return None
    if ready is not None and target != _target(thread, ready.message_id):
        return None
    if ready is not None and not suggests:
        last = ready.rework_count >= MOST_REWORKS
        key = LabelKey.ACTION_REQUIRED if last else LabelKey.OUTBOX
        show_state(account.pk, labelled_messages(thread), (ready.message_id, key))
    return skipped("The thread is drafted already")


def rework_draft(
    account: MailAccount,
    gmail: GmailClient,
    thread_id: UUID,
    *,
    job_id: UUID,
    is_last_attempt: bool,
) -> dict[str, Any]:
    """Write the thread's draft anew, as the person orders above its marker; return the result.

    After three reworks no model is asked any more, and the person continues alone. Must run under
    the thread's lock.
    """
    if suggests_only(account):
        return skipped(SUGGESTS_ONLY)
    with firm_scope(account.firm_id):
        thread = _thread(account, thread_id)
        if (written := _written_by(thread, job_id)) is not None:
            return drafted(written)
        begun = Draft.objects.filter(
            thread=thread, status=DraftStatus.WRITING, origin=DraftOrigin.REWORK
        )
        unfinished = begun.select_related("replaces", "message__thread").order_by("-pk").first()
        ready = Draft.objects.filter(thread=thread, status=DraftStatus.READY)
        old: Draft | None = ready.select_related("message__thread").first()
        if unfinished is not None and unfinished.replaces is not None:
            old = unfinished.replaces
        if old is None:
            show_state(account.pk, labelled_messages(thread), None)
            return skipped("The thread has no draft of Mailroom's")
        message: Message = old.message if unfinished is None else unfinished.message
        if old.rework_count >= MOST_REWORKS:
            return _end_reworks(account, thread, message)
    order = ("", "") if unfinished is not None else _order_of(gmail, old)
    if order is None:
        return skipped("The draft is no longer in Gmail")
    instruction, current_text = order
    return write_draft(
        DraftTask(
            account=account,
            gmail=gmail,
            thread=thread,
            message=message,
            origin=DraftOrigin.REWORK,
            job_id=job_id,
            is_last_attempt=is_last_attempt,
            instruction=instruction,
            current_text=current_text,
            replaces=old,
        )
    )


def _order_of(gmail: GmailClient, draft: Draft) -> tuple[str, str] | None:
    """Return the order above the marker and the text below it; None if the draft is gone."""
    current = read_draft(gmail, draft.gmail_draft_id)
    if current is None:
        return None
    return order_in(draft, current), current.below if current.has_marker else current.text


def _end_reworks(account: MailAccount, thread: MailThread, message: Message) -> dict[str, Any]:
    """Leave the draft to the person from now on. Must run in the firm's scope."""
    MailThread.objects.filter(pk=thread.pk).update(status=ThreadStatus.SKIPPED)
    show_state(account.pk, labelled_messages(thread), (message.pk, LabelKey.ACTION_REQUIRED))
    record_event(EventType.REWORK_LIMIT, account, message=message)
    return skipped(f"The draft was reworked {MOST_REWORKS} times")


def _thread(account: MailAccount, thread_id: UUID) -> MailThread:
    thread: MailThread | None = MailThread.objects.filter(account=account, pk=thread_id).first()
    if thread is None:
        raise RowGone(f"thread {thread_id} is gone, or belongs to another mailbox")
    return thread


def _written_by(thread: MailThread, job_id: UUID) -> Draft | None:
    """Return the draft of an earlier attempt, killed after it wrote and before the job ended."""
    rows = Draft.objects.filter(thread=thread, job_id=job_id, written_at__isnull=False)
    written: Draft | None = rows.first()
    return written


def _target(thread: MailThread, labelled: UUID | None = None) -> Message | None:
    """Return the newest message from somebody else; messages in trash or spam only if all are.

    If several people use one form, only messages of the one who wrote `labelled` count.
    """
    others = list(newest_first(thread).filter(outgoing=False).only("outgoing", "labels"))
    asked = next((one for one in others if one.pk == labelled), None)
    if asked is not None:
        others = list(outline_with_target(asked, others, own_addresses(thread.account)))
    if not others:
        return None
    newest = newest_to_answer(others) or others[0]
    messages = Message.objects.select_related("thread", "account").defer("html")
    target: Message = messages.get(pk=newest.pk)
    return target
