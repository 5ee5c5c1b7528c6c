"""The drafts in a thread that are the person's: if there are any, Mailroom adds none unasked."""

from __future__ import annotations

from collections.abc import Iterable

from mail.models import MAX_INSTRUCTION_LENGTH, Draft, DraftOrigin, DraftStatus
from mail.services.drafting.gmail_drafts import GmailDraft, is_edited, thread_drafts
from mail.services.drafting.task import DraftTask
from tenants.scope import firm_scope

OWN_ID = "<mailroom."


def foreign_drafts(task: DraftTask) -> list[GmailDraft]:
    """Return the drafts in the thread that the person began, the newest first."""
    found = thread_drafts(task.gmail, task.thread.gmail_thread_id)
    with firm_scope(task.account.firm_id):
        known = known_ids(task)
    return [
        one for one in found if one.draft_id not in known and not one.rfc822_id.startswith(OWN_ID)
    ]


def persons_drafts(task: DraftTask) -> list[GmailDraft]:
    """Return all drafts in the thread but Mailroom's own ready one, if that is unedited.

    The person began, edited or kept them. A draft of Mailroom's whose row was deleted with its
    message is among them, because nobody can tell whether it was edited.
    """
    found = thread_drafts(task.gmail, task.thread.gmail_thread_id)
    with firm_scope(task.account.firm_id):
        rows = Draft.objects.filter(thread=task.thread, status=DraftStatus.READY)
        standing = {row.gmail_draft_id: row for row in rows}
    return [
        one
        for one in found
        if one.draft_id not in standing or is_edited(standing[one.draft_id], one)
    ]


def note_edits(task: DraftTask, drafts: Iterable[GmailDraft]) -> None:
    """Mark those of these drafts that are Mailroom's as edited by the person."""
    ids = [one.draft_id for one in drafts]
    with firm_scope(task.account.firm_id):
        rows = Draft.objects.filter(thread=task.thread, status=DraftStatus.READY)
        rows.filter(gmail_draft_id__in=ids).update(edited=True)


def noted_order(task: DraftTask, notes: GmailDraft | None) -> str:
    """Return the person's notes: what they wrote above the marker, or all if there is no marker.

    Without notes it is what an earlier attempt stored of them before it moved them to the trash.
    That attempt's draft may answer an older message; then this draft replaces it.
    """
    noted = "" if notes is None else notes.said[:MAX_INSTRUCTION_LENGTH]
    if noted:
        return noted
    with firm_scope(task.account.firm_id):
        rows = Draft.objects.filter(thread=task.thread, status=DraftStatus.WRITING)
        begun = rows.filter(origin=DraftOrigin.MANUAL).exclude(instruction="").order_by("-pk")
        return begun.values_list("instruction", flat=True).first() or ""


def known_ids(task: DraftTask) -> set[str]:
    """Return the ids of Mailroom's drafts in the thread. Must run in the firm's scope."""
    rows = Draft.objects.filter(thread=task.thread).exclude(gmail_draft_id="")
    return set(rows.values_list("gmail_draft_id", flat=True))
