"""Moves a draft that is replaced or not wanted to the trash, unless the person has changed it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast
from uuid import UUID

from django.db.models.functions import Now

from jobs.models import JobQueue
from jobs.states import LIVE
from mail.gmail.client import GmailClient
from mail.models import (
    MAX_INSTRUCTION_LENGTH,
    Draft,
    DraftOrigin,
    DraftStatus,
    EventType,
    MailAccount,
)
from mail.services.drafting.gmail_drafts import (
    GmailDraft,
    is_edited,
    is_edited_below,
    order_in,
    read_draft,
    trash_unedited,
    trash_unless_edited,
)
from mail.services.drafting.persons_drafts import note_edits
from mail.services.drafting.sent import sent_at
from mail.services.drafting.task import DraftTask, event_detail
from mail.services.mailboxes.modes import suggests_only
from mail.services.timelines.events import record_event
from tenants.scope import firm_scope

# How often a draft is read again if the person edits it at this moment.
MOST_READINGS = 3
KEPT = "The person's own draft stays"
SENT = "The person has sent the draft"
REORDERED = "The person has changed the order"
_EVENTS = {
    DraftStatus.KEPT: EventType.DRAFT_KEPT,
    DraftStatus.REPLACED: EventType.DRAFT_WITHDRAWN,
    DraftStatus.SENT: EventType.SENT_DETECTED,
    DraftStatus.WITHDRAWN: EventType.DRAFT_WITHDRAWN,
}
P = ParamSpec("P")
Work = Callable[Concatenate[MailAccount, GmailClient, UUID, P], dict[str, Any]]


def retire(task: DraftTask, draft: Draft) -> str:
    """Move the earlier draft to the trash unless it was changed; return a reason to stop, if any.

    An edited draft stops an automatic one. A rework, which the person asked for, is written beside
    it. For a rework, the order above the marker is no edit, as long as `draft` was made by it.
    """
    with firm_scope(task.account.firm_id):
        ready = Draft.objects.filter(thread=task.thread, status=DraftStatus.READY)
        old: Draft | None = ready.select_related("thread", "message").first()
    if old is None:
        return ""
    is_rework = task.origin == DraftOrigin.REWORK
    status = DraftStatus.REPLACED if is_rework else DraftStatus.WITHDRAWN
    for _ in range(MOST_READINGS):
        current = read_draft(task.gmail, old.gmail_draft_id)
        if current is None:
            sent = sent_at(task.gmail, old)
            if sent is not None and not _asks_again(task, sent):
                return SENT
            status = status if sent is None else DraftStatus.SENT
            break
        if is_rework and _is_reordered(draft, old, current):
            return REORDERED
        edited = is_edited_below(old, current) if is_rework else is_edited(old, current)
        # The new draft's row has no room for a longer order, which would be lost.
        edited = edited or len(current.above) > MAX_INSTRUCTION_LENGTH
        if edited and not is_rework:
            note_edits(task, [current])
            return KEPT
        if edited:
            status = DraftStatus.KEPT
            break
        if trash_unless_edited(task.gmail, current):
            break
    else:
        return KEPT
    with firm_scope(task.account.firm_id):
        if status == DraftStatus.WITHDRAWN:
            _hand_on_order(old, draft)
        # Only an earlier check can tell whether a sent draft was edited, so that is kept.
        known = {} if status == DraftStatus.SENT else {"edited": status == DraftStatus.KEPT}
        Draft.objects.filter(pk=old.pk, status=DraftStatus.READY).update(
            status=status, ended_at=Now(), **known
        )
        record_event(_EVENTS[status], task.account, message=old.message, detail=event_detail(old))
    return ""


def _asks_again(task: DraftTask, sent: datetime) -> bool:
    """Say whether an answer is wanted though one was sent: the person asked, or new mail came."""
    if task.origin == DraftOrigin.AUTOMATIC:
        return task.message.internal_date > sent
    return task.origin == DraftOrigin.MANUAL


def _hand_on_order(old: Draft, draft: Draft) -> None:
    """Give the new draft the order of a rework that was asked for outside Gmail on the old one."""
    rows = Draft.objects.select_for_update(of=("self",), no_key=True).filter(
        pk=old.pk, status=DraftStatus.READY
    )
    asked = rows.values_list("next_instruction", flat=True).first()
    if asked:
        Draft.objects.filter(pk=draft.pk).update(next_instruction=asked)


def _is_reordered(draft: Draft, old: Draft, current: GmailDraft) -> bool:
    """Say whether the person's order has changed since the rework `draft` was made by it.

    If the marker is gone, the person has taken the old draft over, and it stays.
    """
    return current.has_marker and order_in(old, current).split() != draft.instruction.split()


def end_left_over(account: MailAccount, gmail: GmailClient, draft: Draft) -> None:
    """End a draft whose job gave up; if it is in Gmail unedited, move it to the trash."""
    trash_unedited(
        account, gmail, draft.thread.gmail_thread_id, draft.rfc822_id, draft.content_hash
    )
    with firm_scope(draft.firm_id):
        Draft.objects.filter(pk=draft.pk, status=DraftStatus.WRITING).update(
            status=DraftStatus.CANCELED, ended_at=Now()
        )


def ends_what_it_began(work: Work[P]) -> Work[P]:
    """Make a job that skips its thread end the drafts that it, or a job that is over, began there.

    No other job would end them.
    """

    @wraps(work)
    def run(
        account: MailAccount,
        gmail: GmailClient,
        thread_id: UUID,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> dict[str, Any]:
        result = work(account, gmail, thread_id, *args, **kwargs)
        if result.get("skipped"):
            _end_begun(account, gmail, thread_id, cast("UUID", kwargs["job_id"]))
        return result

    return run


def _end_begun(account: MailAccount, gmail: GmailClient, thread_id: UUID, job_id: UUID) -> None:
    with firm_scope(account.firm_id):
        rows = Draft.objects.filter(
            account=account, thread_id=thread_id, status=DraftStatus.WRITING
        )
        writing = list(rows.select_related("thread"))
        jobs = JobQueue.objects.filter(pk__in=[draft.job_id for draft in writing])
        # A job that waits for a retry continues its own draft.
        live = set(jobs.filter(status__in=LIVE).values_list("pk", flat=True)) - {job_id}
        begun = [draft for draft in writing if draft.job_id not in live]
    if begun and not suggests_only(account):
        for draft in begun:
            end_left_over(account, gmail, draft)
