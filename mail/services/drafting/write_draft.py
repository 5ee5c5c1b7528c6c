"""Writes a composed draft to Gmail once, instead of the earlier one.

The draft is stored before it is sent to Gmail. Each attempt first checks whether an earlier one,
whose answer was lost, has written it. A draft that the person changed is never replaced: see
`retire`.
"""

from __future__ import annotations

from typing import Any

from django.db.models.functions import Now

from mail.errors import OrderChanged
from mail.gmail.errors import GmailNotFound
from mail.gmail.mime import build_mail
from mail.labels import LabelKey
from mail.llm.base import Category
from mail.models import (
    Draft,
    DraftOrigin,
    DraftStatus,
    EventType,
    MailThread,
    Message,
    ThreadStatus,
)
from mail.services.deciding.corrections import decide_for_person
from mail.services.deciding.relabel import show_state
from mail.services.drafting.cleanup import end_draft
from mail.services.drafting.compose_draft import compose_draft, mail_of, reply_faults
from mail.services.drafting.gmail_drafts import (
    GmailDraft,
    drafts_outside,
    is_kept_whole,
    read_draft,
    thread_drafts,
    trash_unless_edited,
)
from mail.services.drafting.persons_drafts import known_ids, persons_drafts
from mail.services.drafting.persons_word import keep_persons_word, seen_by_person
from mail.services.drafting.retire import KEPT, REORDERED, SENT, end_left_over, retire
from mail.services.drafting.task import (
    DraftTask,
    drafted,
    event_detail,
    label_beside,
    refuse,
    skipped,
)
from mail.services.mailboxes.accounts import usable_account
from mail.services.mailboxes.modes import SUGGESTS_ONLY, suggests_only
from mail.services.operation import locked_row
from mail.services.timelines.events import record_event
from mail.services.timelines.threads import is_discarded, newest_first
from tenants.scope import firm_scope

GONE = "The conversation is no longer in Gmail"
NOTES_KEPT = (
    "The person's notes have files, are too long to be kept elsewhere, or were changed since"
)
DISCARDED = "The message is in the trash or among spam"
# After how long a changed order is read again, as the person may still be writing it.
REORDERED_SECONDS = 30


def write_draft(task: DraftTask, notes: GmailDraft | None = None) -> dict[str, Any]:
    """Compose the draft unless an earlier attempt has, and write it; return the job's result.

    `notes` is a draft of the person's that holds orders; it goes to the trash if the new draft's
    row keeps all of them. Must run under the thread's lock, without a transaction.

    Raises:
        OrderChanged: the person's order has changed since the rework was composed.
        MailboxWaits: the mailbox may not be worked on now, because it was paused, for example.
        MailboxInactive, MailboxDisconnected: the mailbox was switched off or disconnected.
        RowGone: the message to be answered was deleted meanwhile.
    """
    draft = _unfinished(task)
    repeated = draft is not None
    if draft is None:
        with firm_scope(task.account.firm_id):
            if reply_faults(task.account, task.message):
                return refuse(task.account, task.message, "The sender cannot be answered")
        draft = compose_draft(task)
        if _only_suggests_by_now(task):
            return _stop(task)
        with firm_scope(task.account.firm_id):
            # If the message was deleted meanwhile, this raises: no row may refer to it.
            locked_row(task.message)
            draft.save(force_insert=True)
    reason = retire(task, draft)
    if reason:
        return _cancel(task, draft, reason)
    written = _written_before(task, draft) if repeated else None
    if written is None:
        reason = _why_not_written(task, notes)
        if reason:
            return _cancel(task, draft, reason)
        if notes is not None:
            _put_away(task, draft, notes)
    return _write(task, draft, written)


def _only_suggests_by_now(task: DraftTask) -> bool:
    """Check again whether the mailbox may be written to, because a model may have taken minutes.

    Nothing is stored yet, so a job that waits for the end of a pause composes the draft anew, from
    the thread as it is then.
    """
    usable_account(task.account.firm_id, task.account.pk)
    return suggests_only(task.account)


def _stop(task: DraftTask) -> dict[str, Any]:
    """Write nothing, but store what the person said by the label Needs Response."""
    if task.origin == DraftOrigin.MANUAL:
        decide_for_person(
            task.account,
            task.thread.pk,
            task.message.pk,
            Category.NEEDS_RESPONSE,
            job_id=task.job_id,
        )
    return skipped(SUGGESTS_ONLY)


def _why_not_written(task: DraftTask, notes: GmailDraft | None) -> str:
    """Return what forbids the draft since it was composed; usually nothing."""
    if task.origin == DraftOrigin.REWORK:
        return ""
    others = persons_drafts(task)
    if any(notes is None or one.draft_id != notes.draft_id for one in others):
        return KEPT
    with firm_scope(task.account.firm_id):
        now = Message.objects.filter(pk=task.message.pk).only("labels").first()
    return DISCARDED if now is not None and is_discarded(now) else ""


def _put_away(task: DraftTask, draft: Draft, notes: GmailDraft) -> None:
    """Move the person's notes to the trash if the draft's row keeps them whole; else leave them."""
    if is_kept_whole(notes, draft.instruction):
        trash_unless_edited(task.gmail, notes)
        return
    with firm_scope(task.account.firm_id):
        record_event(
            EventType.DRAFT_KEPT, task.account, message=task.message, detail={"reason": NOTES_KEPT}
        )


def _unfinished(task: DraftTask) -> Draft | None:
    """Return the unfinished draft of an earlier attempt at the same task; end all others."""
    with firm_scope(task.account.firm_id):
        rows = Draft.objects.filter(thread=task.thread, status=DraftStatus.WRITING)
        ours = rows.filter(message=task.message, origin=task.origin)
        draft: Draft | None = (
            ours.select_related("account", "message__thread").order_by("-pk").first()
        )
        others = rows
        if draft is not None:
            others = rows.exclude(pk=draft.pk)
            # The draft may be that of a job that gave up; from now on it is this job's.
            rows.filter(pk=draft.pk).update(job_id=task.job_id)
        left = list(others.select_related("thread"))
    for other in left:
        end_left_over(task.account, task.gmail, other)
    return draft


def _cancel(task: DraftTask, draft: Draft, reason: str) -> dict[str, Any]:
    with firm_scope(task.account.firm_id):
        Draft.objects.filter(pk=draft.pk, status=DraftStatus.WRITING).update(
            status=DraftStatus.CANCELED, ended_at=Now()
        )
        if reason == KEPT:
            return keep_persons_draft(task)
        if reason == SENT:
            _note_sent(task)
        if reason == DISCARDED:
            MailThread.objects.filter(pk=task.thread.pk).update(status=ThreadStatus.SKIPPED)
    if reason == REORDERED:
        raise OrderChanged(f"{reason}: it is read once more", seconds=REORDERED_SECONDS)
    return skipped(reason)


def _note_sent(task: DraftTask) -> None:
    """End the earlier draft as sent: checks of it while this job ran have left that to the job."""
    ready = Draft.objects.filter(thread=task.thread, status=DraftStatus.READY)
    old = ready.select_related("thread", "message").first()
    if old is not None:
        end_draft(task.account, old, DraftStatus.SENT, ThreadStatus.SENT)
    if task.origin == DraftOrigin.REWORK:
        # If the thread waits for a draft, somebody has asked again, and another job writes it.
        return
    pending = MailThread.objects.filter(pk=task.thread.pk, status=ThreadStatus.PENDING)
    pending.update(status=ThreadStatus.SENT)


def keep_persons_draft(task: DraftTask) -> dict[str, Any]:
    """Keep the person's draft as the thread's; return the result. Must run in the firm's scope."""
    ready = Draft.objects.filter(thread=task.thread, status=DraftStatus.READY)
    if ready.exists():
        MailThread.objects.filter(pk=task.thread.pk).update(status=ThreadStatus.DRAFTED)
        show_state(task.account.pk, _messages(task), (task.message.pk, LabelKey.OUTBOX))
    else:
        MailThread.objects.filter(pk=task.thread.pk).update(status=ThreadStatus.SKIPPED)
    record_event(EventType.DRAFT_KEPT, task.account, message=task.message)
    return skipped(KEPT)


def _write(task: DraftTask, draft: Draft, written: GmailDraft | None) -> dict[str, Any]:
    if written is not None:
        draft_id, message_id, edited = (
            written.draft_id,
            written.gmail_message_id,
            written.content_hash != draft.content_hash,
        )
    else:
        try:
            made = task.gmail.create_draft(build_mail(mail_of(draft)), task.thread.gmail_thread_id)
        except GmailNotFound:
            return _cancel(task, draft, GONE)
        draft_id, message_id, edited = made["id"], made["message"]["id"], False
    if not _finish(task, draft, draft_id, message_id, edited=edited):
        return _leave_to_winner(task, draft, draft_id)
    return drafted(draft)


def _written_before(task: DraftTask, draft: Draft) -> GmailDraft | None:
    """Return the draft that an earlier attempt wrote, even if it was edited since."""
    found = thread_drafts(task.gmail, task.thread.gmail_thread_id)
    for one in found:
        if one.rfc822_id == draft.rfc822_id:
            return one
    with firm_scope(task.account.firm_id):
        known = known_ids(task)
    # An edit may change the Message-ID, but the marker stays.
    edited = next((one for one in found if one.has_marker and one.draft_id not in known), None)
    if edited is not None:
        return edited
    return next(iter(drafts_outside(task.account, task.gmail, draft.rfc822_id)), None)


def _finish(task: DraftTask, draft: Draft, draft_id: str, message_id: str, *, edited: bool) -> bool:
    """Store that the draft is in Gmail and show its label; False if another worker was faster."""
    with firm_scope(task.account.firm_id):
        if task.origin == DraftOrigin.MANUAL:
            # Rules may send answers, so the mailbox is locked before the thread, as in a sync.
            locked_row(task.account)
        won = Draft.objects.filter(pk=draft.pk, status=DraftStatus.WRITING).update(
            status=DraftStatus.READY,
            gmail_draft_id=draft_id,
            gmail_message_id=message_id,
            edited=edited,
            written_at=Now(),
        )
        if not won:
            return False
        messages = _messages(task)
        changes: dict[str, Any] = {"status": ThreadStatus.DRAFTED}
        if task.origin == DraftOrigin.MANUAL:
            seen = seen_by_person(task, messages)
            changes |= {"classification": Category.NEEDS_RESPONSE, "classified_upto": seen[0]}
            keep_persons_word(task, seen)
        MailThread.objects.filter(pk=task.thread.pk).update(**changes)
        show_state(task.account.pk, messages, (task.message.pk, label_beside(draft)))
        is_rework = task.origin == DraftOrigin.REWORK
        event = EventType.DRAFT_REWORKED if is_rework else EventType.DRAFT_CREATED
        record_event(event, task.account, message=task.message, detail=event_detail(draft))
    return True


def _leave_to_winner(task: DraftTask, draft: Draft, draft_id: str) -> dict[str, Any]:
    """Take back a draft whose message was deleted meanwhile, or that another worker wrote, too."""
    with firm_scope(task.account.firm_id):
        row = Draft.objects.filter(pk=draft.pk).only("gmail_draft_id", "content_hash").first()
    kept: Draft = row or draft
    ours = read_draft(task.gmail, draft_id) if kept.gmail_draft_id != draft_id else None
    if ours is not None and ours.content_hash == kept.content_hash:
        trash_unless_edited(task.gmail, ours)
    # Without a row, the message was deleted for good, and nobody else knows of this draft.
    return skipped("Another worker has written it" if row else GONE)


def _messages(task: DraftTask) -> list[Message]:
    columns = ("firm", "account", "thread", "labels", "outgoing")
    return list(newest_first(task.thread).only(*columns))
