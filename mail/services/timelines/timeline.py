"""Everything that happened to one message, in order; for its page, and for REST."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, QuerySet, Subquery

from jobs.queries.durations import in_words
from mail.models import (
    Action,
    ActionLink,
    ActionType,
    AgentRun,
    Approval,
    Decision,
    Document,
    Draft,
    LLMCall,
    MailEvent,
    MailLabel,
    Message,
    OutboundMessage,
    Relation,
)
from mail.services.actions.undo import why_not_undoable_with
from mail.services.timelines.events import LABEL_CHANGES, open_detail
from mail.services.timelines.message_jobs import jobs_of

# The most rows of each kind that are shown, the newest.
MOST_OF_A_KIND = 200


class EntryKind(StrEnum):
    """What an entry of the timeline is about."""

    EVENT = "event"
    DECISION = "decision"
    ACTION = "action"
    JOB = "job"
    APPROVAL = "approval"
    OUTBOUND = "outbound"
    MODEL_CALL = "model_call"
    AGENT_RUN = "agent_run"
    DRAFT = "draft"
    DOCUMENT = "document"


@dataclass(frozen=True, kw_only=True)
class TimelineEntry:
    """One thing that happened; `content` quotes the mail, and is empty if the reader may not."""

    kind: EntryKind
    row: Any
    at: datetime
    title: str
    status: str = ""
    detail: str = ""
    content: str = ""
    correlation_id: str = ""
    job_id: UUID | None = None
    # For actions only: why the action cannot be undone, empty if it can.
    why_not_undoable: str | None = None


Source = Callable[[Message, bool], Iterator[TimelineEntry]]


def timeline_of(message: Message, *, is_readable: bool) -> list[TimelineEntry]:
    """Return what happened to the message, oldest first. Must run in its firm's scope.

    `is_readable` says whether the reader may read the mailbox.
    """
    entries = [entry for source in _SOURCES for entry in source(message, is_readable)]
    entries += _jobs(message, entries)
    return sorted(entries, key=lambda entry: (entry.at, entry.row.pk))


def _newest(rows: QuerySet[Any]) -> list[Any]:
    return list(rows.order_by("-pk")[:MOST_OF_A_KIND])


def _events(message: Message, is_readable: bool) -> Iterator[TimelineEntry]:
    events = _newest(MailEvent.objects.filter(message=message))
    names = _label_names(message, events) if is_readable else {}
    for event in events:
        yield TimelineEntry(
            kind=EntryKind.EVENT,
            row=event,
            at=event.created_at,
            title=event.get_event_type_display(),
            detail=_in_words(open_detail(event)),
            content=_in_words(
                {
                    key: [names.get(label, label) for label in event.detail.get(key, ())]
                    for key in LABEL_CHANGES
                }
            )
            if is_readable
            else "",
            correlation_id=event.correlation_id,
        )


def _label_names(message: Message, events: Iterable[MailEvent]) -> dict[str, str]:
    used = {
        label for event in events for key in LABEL_CHANGES for label in event.detail.get(key, ())
    }
    known = MailLabel.objects.filter(account_id=message.account_id, gmail_label_id__in=used)
    return dict(known.values_list("gmail_label_id", "name"))


def _in_words(values: Mapping[str, object]) -> str:
    """Return the values of a row's JSON as text, without ids, which are links elsewhere."""
    said = {
        name.replace("_", " "): ", ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in values.items()
        if not name.endswith("_id")
    }
    return "; ".join(f"{name}: {value}" for name, value in said.items() if value not in ("", None))


def _verdict(decision: Decision) -> str:
    sure = f"{decision.get_category_display()}, {decision.confidence:.0%} sure"
    return sure if decision.labelled else f"{sure}: not sure enough for a label"


def _decisions(message: Message, is_readable: bool) -> Iterator[TimelineEntry]:
    for decision in _newest(Decision.objects.filter(message=message)):
        yield TimelineEntry(
            kind=EntryKind.DECISION,
            row=decision,
            at=decision.created_at,
            title=_verdict(decision),
            status=decision.source,
            detail=f"Decided by: {decision.get_source_display().lower()}",
            content=decision.rationale if is_readable else "",
            job_id=decision.job_id,
        )


def _actions(message: Message, is_readable: bool) -> Iterator[TimelineEntry]:
    links = ActionLink.objects.filter(relation=Relation.UNDO_OF)
    undo = links.filter(effect=OuterRef("pk"), counts=True).values("cause__status")
    undone = links.filter(cause=OuterRef("pk")).values("effect__action_type")
    actions = Action.objects.filter(message=message).select_related("rule", "account")
    actions = actions.annotate(undo_status=Subquery(undo[:1]), undone_type=Subquery(undone[:1]))
    for action in _newest(actions):
        title = action.get_action_type_display()
        if action.undone_type:
            title = f"{title} of “{ActionType(action.undone_type).label}”"
        # Only readers of the mailbox may see its rules, and a rule's name may quote mail.
        named = action.rule is not None and (is_readable or action.rule.account_id is None)
        rule = f"Asked for by the rule “{action.rule.name}”" if named else ""
        yield TimelineEntry(
            kind=EntryKind.ACTION,
            row=action,
            at=action.created_at,
            title=title,
            status=action.status,
            detail=". ".join(part for part in (rule, action.error) if part),
            content=_in_words(action.parameters) if is_readable else "",
            job_id=action.job_id,
            why_not_undoable=why_not_undoable_with(action, action.undo_status),
        )


def _approvals(message: Message, _: bool) -> Iterator[TimelineEntry]:
    approvals = Approval.objects.filter(message=message).select_related("action", "outbound")
    for approval in _newest(approvals):
        by = f"Decided by {approval.decided_by}" if approval.decided_by else ""
        why = ", ".join(approval.reasons).replace("_", " ")
        yield TimelineEntry(
            kind=EntryKind.APPROVAL,
            row=approval,
            at=approval.created_at,
            title=f"Approval asked for: {approval.subject.lower()}",
            status=approval.status,
            detail=". ".join(part for part in (why and f"Because of: {why}", by) if part),
        )


def _outbound(message: Message, is_readable: bool) -> Iterator[TimelineEntry]:
    for outbound in _newest(OutboundMessage.objects.filter(message=message)):
        to = ", ".join(outbound.recipients)
        yield TimelineEntry(
            kind=EntryKind.OUTBOUND,
            row=outbound,
            at=outbound.created_at,
            title=outbound.get_kind_display(),
            status=outbound.status,
            detail=outbound.error,
            content=f"To {to}: {outbound.subject}" if is_readable else "",
            job_id=outbound.job_id,
        )


def _model_calls(message: Message, _: bool) -> Iterator[TimelineEntry]:
    for call in _newest(LLMCall.objects.filter(message=message)):
        tokens = f"{call.prompt_tokens} tokens in, {call.completion_tokens} out"
        yield TimelineEntry(
            kind=EntryKind.MODEL_CALL,
            row=call,
            at=call.created_at,
            title=f"{call.model} asked to {call.get_call_type_display().lower()}",
            status=call.error or "answered",
            detail=f"{tokens}, after {in_words(call.latency_ms / 1000)}",
            job_id=call.job_id,
        )


def _agent_runs(message: Message, is_readable: bool) -> Iterator[TimelineEntry]:
    for run in _newest(AgentRun.objects.filter(message=message)):
        tools = ", ".join(dict.fromkeys(call["tool"] for call in run.tool_calls))
        yield TimelineEntry(
            kind=EntryKind.AGENT_RUN,
            row=run,
            at=run.created_at,
            title=f"Agent {run.profile_name}",
            status=run.status,
            detail=run.error or (f"It used {tools}" if tools else ""),
            content=run.final_message if is_readable else "",
            job_id=run.job_id,
        )


def _drafts(message: Message, is_readable: bool) -> Iterator[TimelineEntry]:
    for draft in _newest(Draft.objects.filter(message=message)):
        by, edited = draft.get_source_display().lower(), ", edited since" if draft.edited else ""
        yield TimelineEntry(
            kind=EntryKind.DRAFT,
            row=draft,
            at=draft.created_at,
            title=f"Answer drafted ({draft.get_origin_display().lower()})",
            status=draft.status,
            detail=f"Written by: {by}{edited}",
            content=draft.text if is_readable else "",
            job_id=draft.job_id,
        )


def _documents(message: Message, is_readable: bool) -> Iterator[TimelineEntry]:
    documents = Document.objects.filter(message=message).select_related("attachment")
    for document in _newest(documents.defer("content", "text")):
        yield TimelineEntry(
            kind=EntryKind.DOCUMENT,
            row=document,
            at=document.created_at,
            title="Attachment to be read",
            status=document.status,
            detail=document.get_reason_display(),
            content=document.attachment.filename if is_readable else "",
            job_id=document.job_id,
        )


_SOURCES: tuple[Source, ...] = (
    _events, _decisions, _actions, _approvals, _outbound, _model_calls, _agent_runs, _drafts,
    _documents,
)  # fmt: skip


def _jobs(message: Message, entries: Iterable[TimelineEntry]) -> Iterator[TimelineEntry]:
    """Yield the jobs that other entries name, their ancestors, and jobs about the message."""
    jobs = jobs_of(
        message,
        named={entry.job_id for entry in entries if entry.job_id is not None},
        row_ids={entry.row.pk for entry in entries},
        correlation_ids={entry.correlation_id for entry in entries if entry.correlation_id},
    )
    for job in jobs:
        ran = ""
        if job.started_at and job.completed_at and job.started_at <= job.completed_at:
            ran = f" after {in_words((job.completed_at - job.started_at).total_seconds())}"
        yield TimelineEntry(
            kind=EntryKind.JOB,
            row=job,
            at=job.created_at,
            title=job.job_type,
            status=job.status,
            detail=job.last_error or f"Attempt {job.attempts} of {job.max_attempts}{ran}",
            correlation_id=job.correlation_id,
            job_id=job.pk,
        )
