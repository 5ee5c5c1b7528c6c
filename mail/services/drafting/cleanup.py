"""Follows what the person does with a thread: marks it done, sends or discards its draft."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models.functions import Now

from jobs.models import JobQueue
from jobs.states import LIVE
from mail.gmail.client import GmailClient
from mail.labels import LabelKey
from mail.models import (
    UNFINISHED,
    Action,
    ActionType,
    Draft,
    DraftStatus,
    EventType,
    MailAccount,
    MailLabel,
    MailThread,
    Message,
    ThreadStatus,
)
from mail.services.actions.actions import request_action
from mail.services.actions.snooze import end_snoozes
from mail.services.deciding.relabel import show_state
from mail.services.drafting.gmail_drafts import (
    GmailDraft,
    is_edited,
    read_draft,
    trash_unedited,
    trash_unless_edited,
)
from mail.services.drafting.retire import end_left_over
from mail.services.drafting.sent import sent_at
from mail.services.drafting.task import skipped
from mail.services.mailboxes.modes import SUGGESTS_ONLY, suggests_only
from mail.services.operation import locked_ids
from mail.services.timelines.events import record_event
from mail.services.timelines.threads import labelled_messages
from tenants.scope import firm_scope

NO_DRAFT = "The thread has no draft of Mailroom's"


def mark_done(
    account: MailAccount, thread_id: UUID, newest_id: UUID | None = None
) -> dict[str, Any]:
    """Remove labels of states, snoozes and INBOX from the whole thread; the label Done stays.

    Messages that came after `newest_id`, and do not carry Done themselves, are left alone. If
    Mailroom suggests only, it stores that the thread is done and leaves Gmail alone. Must run under
    the thread's lock.
    """
    suggests = suggests_only(account)
    with firm_scope(account.firm_id):
        thread: MailThread | None = MailThread.objects.filter(account=account, pk=thread_id).first()
        if thread is None:
            return skipped("The thread is gone")
        thread_messages = labelled_messages(thread)
        messages = _done_with(account, thread_messages, newest_id)
        if not suggests:
            _archive(account, messages)
        if messages == thread_messages and thread.status != ThreadStatus.ARCHIVED:
            MailThread.objects.filter(pk=thread.pk).update(status=ThreadStatus.ARCHIVED)
            record_event(EventType.ARCHIVED, account, message=messages[0])
    return {"archived": 0, "reason": SUGGESTS_ONLY} if suggests else {"archived": len(messages)}


def _done_with(
    account: MailAccount, messages: list[Message], newest_id: UUID | None
) -> list[Message]:
    """Return the messages that the person saw when marking the thread, or that carry Done."""
    since = next((at for at, one in enumerate(messages) if one.pk == newest_id), 0)
    own = MailLabel.objects.filter(account=account, key=LabelKey.DONE)
    marks = set(own.values_list("gmail_label_id", flat=True))
    return [
        one for at, one in enumerate(messages) if at >= since or not marks.isdisjoint(one.labels)
    ]


def _archive(account: MailAccount, messages: list[Message]) -> None:
    # All are locked at once, in the order in which a change of the mailbox's mode locks them.
    locked_ids(Action.objects.filter(message__in=messages, status__in=UNFINISHED))
    show_state(account.pk, messages, None)
    # Otherwise the messages would come back to the inbox.
    end_snoozes(messages)
    for message in messages:
        if "INBOX" in message.labels:
            request_action(message, ActionType.ARCHIVE)


def check_sent(account: MailAccount, gmail: GmailClient, thread_id: UUID) -> dict[str, Any]:
    """Find out what became of the thread's draft: edited, sent or discarded.

    Must run under the thread's lock.
    """
    draft = _ready_draft(account, thread_id)
    if draft is None:
        return skipped(NO_DRAFT)
    current = read_draft(gmail, draft.gmail_draft_id)
    if current is not None:
        return _still_there(account, draft, current)
    return _conclude(account, draft, sent=sent_at(gmail, draft) is not None)


def withdraw_draft(
    account: MailAccount,
    gmail: GmailClient,
    thread_id: UUID,
    *,
    draft_id: UUID | None = None,
    job_id: UUID | None = None,
) -> dict[str, Any]:
    """Move a draft that nobody needs any more to the trash, unless it was edited.

    `draft_id` names the draft (without it, the thread's is meant) and `job_id` is the job of this
    call.
    Must run under the thread's lock.
    """
    if suggests_only(account):
        return skipped(SUGGESTS_ONLY)
    if draft_id is None:
        draft = _ready_draft(account, thread_id)
        return skipped(NO_DRAFT) if draft is None else _withdraw(account, gmail, draft)
    result = skipped(NO_DRAFT)
    for draft in _versions(account, thread_id, draft_id, job_id):
        if draft.status == DraftStatus.WRITING:
            end_left_over(account, gmail, draft)
            result = {"draft": DraftStatus.CANCELED.value}
        else:
            result = _withdraw(account, gmail, draft)
    return result


def take_back(
    account: MailAccount,
    gmail: GmailClient,
    thread_id: UUID,
    *,
    gmail_thread_id: str,
    rfc822_id: str,
    content_hash: str,
) -> dict[str, Any]:
    """Move a draft in Gmail to the trash whose mail was deleted for good, unless it was edited.

    The draft's row was deleted with the mail, so the draft is found by its Message-ID. Must run
    under the thread's lock.
    """
    if suggests_only(account):
        return skipped(SUGGESTS_ONLY)
    taken = trash_unedited(account, gmail, gmail_thread_id, rfc822_id, content_hash)
    with firm_scope(account.firm_id):
        if not Draft.objects.filter(thread_id=thread_id, status=DraftStatus.READY).exists():
            drafted = MailThread.objects.filter(pk=thread_id, status=ThreadStatus.DRAFTED)
            drafted.update(status=ThreadStatus.SKIPPED)
    return {"taken_back": taken}


def _versions(
    account: MailAccount, thread_id: UUID, draft_id: UUID, job_id: UUID | None
) -> list[Draft]:
    """Return the draft and its reworks that were ordered before this job was, unless they ended.

    A rework that was ordered later is wanted. Drafts that are not written yet come first, because
    otherwise their jobs would write them all the same.
    """
    with firm_scope(account.firm_id):
        rows = Draft.objects.filter(account=account, thread_id=thread_id)
        drafts = list(rows.select_related("thread", "message").order_by("pk"))
    known = {draft_id}
    found = []
    for draft in drafts:
        if draft.replaces_id in known:
            known.add(draft.pk)
        standing = draft.status in (DraftStatus.READY, DraftStatus.WRITING)
        if standing and draft.pk in known and not _is_later(draft, draft_id, job_id):
            found.append(draft)
    return sorted(found, key=lambda draft: draft.status != DraftStatus.WRITING)


def _is_later(draft: Draft, draft_id: UUID, job_id: UUID | None) -> bool:
    # Job ids grow with time.
    if draft.pk == draft_id or draft.job_id is None or job_id is None:
        return False
    return draft.job_id > job_id


def _withdraw(account: MailAccount, gmail: GmailClient, draft: Draft) -> dict[str, Any]:
    current = read_draft(gmail, draft.gmail_draft_id)
    if current is None:
        return _conclude(account, draft, sent=sent_at(gmail, draft) is not None)
    if is_edited(draft, current) or not trash_unless_edited(gmail, current):
        with firm_scope(account.firm_id):
            Draft.objects.filter(pk=draft.pk).update(edited=True)
            record_event(EventType.DRAFT_KEPT, account, message=draft.message)
        return {"draft": "kept"}
    return end_draft(account, draft, DraftStatus.WITHDRAWN, ThreadStatus.SKIPPED)


def _ready_draft(account: MailAccount, thread_id: UUID) -> Draft | None:
    with firm_scope(account.firm_id):
        rows = Draft.objects.filter(account=account, thread_id=thread_id)
        writing = rows.filter(status=DraftStatus.WRITING).values_list("job_id", flat=True)
        if JobQueue.objects.filter(pk__in=list(writing), status__in=list(LIVE)).exists():
            # A draft's live job takes care of the version before it; a job that gave up does not.
            return None
        ready = rows.filter(status=DraftStatus.READY).select_related("thread", "message")
        draft: Draft | None = ready.first()
    return draft


def _still_there(account: MailAccount, draft: Draft, current: GmailDraft) -> dict[str, Any]:
    edited = is_edited(draft, current)
    with firm_scope(account.firm_id):
        Draft.objects.filter(pk=draft.pk, status=DraftStatus.READY).update(
            gmail_message_id=current.gmail_message_id, edited=edited
        )
    return {"draft": "edited" if edited else "unchanged"}


def _conclude(account: MailAccount, draft: Draft, *, sent: bool) -> dict[str, Any]:
    if sent:
        return end_draft(account, draft, DraftStatus.SENT, ThreadStatus.SENT)
    return end_draft(account, draft, DraftStatus.DISCARDED, ThreadStatus.SKIPPED)


_EVENTS = {
    DraftStatus.SENT: EventType.SENT_DETECTED,
    DraftStatus.DISCARDED: EventType.DRAFT_DISCARDED,
    DraftStatus.WITHDRAWN: EventType.DRAFT_WITHDRAWN,
}


def end_draft(
    account: MailAccount, draft: Draft, status: DraftStatus, thread_status: ThreadStatus
) -> dict[str, Any]:
    """Store how a draft that was ready ended; a thread that was drafted gets `thread_status`."""
    with firm_scope(account.firm_id):
        ended = Draft.objects.filter(pk=draft.pk, status=DraftStatus.READY).update(
            status=status, ended_at=Now()
        )
        if ended:
            drafted = MailThread.objects.filter(pk=draft.thread_id, status=ThreadStatus.DRAFTED)
            if drafted.update(status=thread_status):
                _take_outbox(account, draft.thread)
            detail = {"draft_id": str(draft.pk)}
            record_event(_EVENTS[status], account, message=draft.message, detail=detail)
    return {"draft": status.value}


def _take_outbox(account: MailAccount, thread: MailThread) -> None:
    show_state(
        account.pk, labelled_messages(thread), None, among={LabelKey.OUTBOX, LabelKey.REWORK}
    )
