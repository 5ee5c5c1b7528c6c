"""The timeline on a message's page, with links, colours and undo pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse

from jobs.admin.base import LABELS as JOB_LABELS
from mail.admin.agent_run import RUN_STATUS_LABELS
from mail.admin.approval import APPROVAL_STATUS_LABELS
from mail.admin.base import ACTION_STATUS_LABELS
from mail.admin.document import DOCUMENT_STATUS_LABELS
from mail.admin.draft import DRAFT_STATUS_LABELS
from mail.admin.outbound import OUTBOUND_STATUS_LABELS
from mail.models import DraftStatus, EventType, Message
from mail.services.timelines.timeline import EntryKind, TimelineEntry, timeline_of
from tenants.admin.base import access_in
from tenants.models import Role

_STATUS_LABELS: dict[EntryKind, Mapping[str, str]] = {
    EntryKind.ACTION: ACTION_STATUS_LABELS,
    EntryKind.APPROVAL: APPROVAL_STATUS_LABELS,
    EntryKind.OUTBOUND: OUTBOUND_STATUS_LABELS,
    EntryKind.JOB: JOB_LABELS,
    EntryKind.MODEL_CALL: {"answered": "success"},
    EntryKind.AGENT_RUN: RUN_STATUS_LABELS,
    EntryKind.DRAFT: {one: DRAFT_STATUS_LABELS.get(one, "default") for one in DraftStatus},
    EntryKind.DOCUMENT: DOCUMENT_STATUS_LABELS,
}
_EVENT_LABELS: dict[str, str] = {
    EventType.INGESTED: "info",
    EventType.ACTION_FAILED: "danger",
    EventType.SEND_FAILED: "danger",
    EventType.SEND_UNKNOWN: "danger",
    EventType.REJECTED: "danger",
    EventType.APPROVAL_ASKED: "warning",
    EventType.ACTION_COMPLETED: "success",
    EventType.APPROVED: "success",
    EventType.SENT: "success",
}
# Events that add nothing to the row that they are about.
_SAID_BY_ROWS = (
    EventType.CLASSIFIED,
    EventType.APPROVAL_ASKED,
    EventType.UNDO_REQUESTED,
    EventType.AGENT_FINISHED,
    EventType.DRAFT_CREATED,
    EventType.DRAFT_REWORKED,
)
# Kinds whose rows have a display name of their status.
_NAMED_BY_ROWS = (
    EntryKind.ACTION,
    EntryKind.APPROVAL,
    EntryKind.OUTBOUND,
    EntryKind.DRAFT,
    EntryKind.DOCUMENT,
)
_MODELS: dict[EntryKind, str] = {
    EntryKind.EVENT: "mail_mailevent",
    EntryKind.DECISION: "mail_decision",
    EntryKind.ACTION: "mail_action",
    EntryKind.JOB: "jobs_jobqueue",
    EntryKind.APPROVAL: "mail_approval",
    EntryKind.OUTBOUND: "mail_outboundmessage",
    EntryKind.MODEL_CALL: "mail_llmcall",
    EntryKind.AGENT_RUN: "mail_agentrun",
    EntryKind.DRAFT: "mail_draft",
    EntryKind.DOCUMENT: "mail_document",
}


@dataclass(frozen=True)
class ShownEntry:
    """A timeline entry with its page, the colour of its status, and its undo page, if any."""

    entry: TimelineEntry
    href: str
    tone: str
    undo_href: str = ""

    @property
    def kind(self) -> str:
        """The kind, in a word or two."""
        return self.entry.kind.replace("_", " ")

    @property
    def status(self) -> str:
        """The status in words; empty for decisions, whose `status` is their source."""
        if self.entry.kind == EntryKind.DECISION:
            return ""
        if self.entry.kind in _NAMED_BY_ROWS:
            return str(self.entry.row.get_status_display())
        return self.entry.status.replace("_", " ")


def shown_timeline(request: HttpRequest, message: Message) -> list[ShownEntry]:
    """Return the message's timeline, with content only if the user may read it."""
    may_undo = access_in(request).may(Role.OPERATOR, message.firm_id)
    is_readable: bool = message.is_readable  # type: ignore[attr-defined]  # annotated
    return [
        ShownEntry(
            entry,
            _address(entry, "change"),
            _tone(entry),
            _address(entry, "undo") if may_undo and entry.why_not_undoable == "" else "",
        )
        for entry in timeline_of(message, is_readable=is_readable)
        if entry.kind != EntryKind.EVENT or entry.row.event_type not in _SAID_BY_ROWS
    ]


def _address(entry: TimelineEntry, page: str) -> str:
    return reverse(f"admin:{_MODELS[entry.kind]}_{page}", args=[entry.row.pk])


def _tone(entry: TimelineEntry) -> str:
    if entry.kind == EntryKind.EVENT:
        return _EVENT_LABELS.get(entry.row.event_type, "default")
    if entry.kind == EntryKind.DECISION:
        return "primary"
    return _STATUS_LABELS[entry.kind].get(entry.status, "danger")
