"""Asks for approvals and does what was approved: once, and exactly what was asked.

An approval is pending until it is approved, rejected, expired or canceled. A later decision is
refused, and the audit log keeps the refusal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from jobs.queue import enqueue
from jobs.states import Priority
from mail.models import (
    Action,
    ActionStatus,
    Approval,
    ApprovalStatus,
    EventType,
    Message,
    OutboundKind,
    OutboundMessage,
    OutboundStatus,
)
from mail.services.mailboxes.connection import why_not_used
from mail.services.mailboxes.content_access import may_read
from mail.services.operation import audit
from mail.services.queueing import enqueue_action
from mail.services.sending.loop_guard import (
    ANSWERED,
    is_answered,
    lock_replies,
    why_not_released,
)
from mail.services.sending.outbound import content_hash_of, release_outbound
from mail.services.timelines.events import record_event
from mail.text.parsed import from_stored
from tenants.access import access_of
from tenants.audit import SERVICE, Actor
from tenants.models import Role
from tenants.scope import all_firms, firm_scope

LIFETIME = timedelta(days=3)
MAX_EXPIRED_AT_ONCE = 500
APPROVE_ROLE = Role.OPERATOR
NO_ANSWER = "Nobody approved it in time"
CHANGED = "What was asked has changed since; ask anew"
NOT_WAITING = "It no longer waits for approval"
NOT_PERMITTED = "Only the mailbox's owner, or an operator who may read the mailbox, may decide"


@dataclass(frozen=True)
class Decided:
    """What a decision came to; `refused` says why it had no effect."""

    approval: Approval
    refused: str = ""


def ask_approval(
    *,
    action: Action | None = None,
    outbound: OutboundMessage | None = None,
    reasons: Sequence[str] = (),
) -> Approval:
    """Store the approval and have people asked. Must run in the firm's scope.

    The action and the outbound message are stored already, as waiting for it.
    """
    asked: Any = action if action is not None else outbound
    approval: Approval = Approval.objects.create(
        account_id=asked.account_id,
        message_id=asked.message_id,
        action=action,
        outbound=outbound,
        reasons=list(reasons),
        content_hash=asked_hash(action, outbound),
        expires_at=timezone.now() + LIFETIME,
    )
    _record(EventType.APPROVAL_ASKED, approval)
    enqueue(
        "approval.notify",
        {"account_id": approval.account_id, "approval_id": approval.pk},
        priority=Priority.HIGH,
    )
    return approval


def asked_hash(action: Action | None, outbound: OutboundMessage | None) -> str:
    """Return the hash of exactly what is to be approved, as it is now."""
    asked = {
        "action": action and [str(action.pk), action.action_type, action.parameters],
        "message": action and str(action.message_id),
        "outbound": outbound and content_hash_of(outbound),
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def approve(approval: Approval, *, by: Actor, reason: str = "") -> Decided:
    """Do what was asked, if it has not changed and nobody decided before."""
    return _decide(approval, ApprovalStatus.APPROVED, by, reason)


def reject(approval: Approval, *, by: Actor, reason: str = "") -> Decided:
    """Drop what was asked, unless somebody decided before."""
    return _decide(approval, ApprovalStatus.REJECTED, by, reason)


def refuse(approval: Approval, why: str, *, by: Actor, asked: str) -> Decided:
    """Keep in the audit log that a decision had no effect."""
    with firm_scope(approval.firm_id):
        audit(f"approval.{asked}_refused", approval, by, why)
    return Decided(approval, why)


def lock_questions(outbound: OutboundMessage) -> list[Approval]:
    """Return the outbound message's pending approvals, locked. Must run in the firm's scope."""
    rows = Approval.objects.select_for_update(no_key=True)
    return list(rows.filter(outbound=outbound, status=ApprovalStatus.PENDING))


def withdraw(approval: Approval, *, by: Actor, reason: str = "") -> None:
    """Cancel a pending approval whose message is canceled. Must run in the firm's scope."""
    _end(approval, ApprovalStatus.CANCELED, by, reason)


def expire_approvals() -> int:
    """Expire the approvals of every firm that nobody decided in time; return how many."""
    with all_firms("the expiry of approvals"):
        due = Approval.objects.filter(
            status=ApprovalStatus.PENDING, expires_at__lte=timezone.now()
        ).order_by("expires_at")
        found = list(due.values_list("firm_id", "pk")[:MAX_EXPIRED_AT_ONCE])
    return sum(_expire(firm_id, approval_id) for firm_id, approval_id in found)


def _expire(firm_id: int, approval_id: UUID) -> bool:
    with firm_scope(firm_id):
        approval = _locked(approval_id)
        if approval is None or approval.status != ApprovalStatus.PENDING:
            return False
        _end(approval, ApprovalStatus.EXPIRED, SERVICE)
    return True


def _decide(approval: Approval, status: ApprovalStatus, by: Actor, reason: str) -> Decided:
    asked = "approve" if status == ApprovalStatus.APPROVED else "reject"
    with firm_scope(approval.firm_id):
        if status == ApprovalStatus.APPROVED:
            lock_replies(approval.account_id)
        locked = _locked(approval.pk)
        if locked is None:
            return Decided(approval, NOT_WAITING)
        why = _obstacle(locked, status, by)
        if why:
            return refuse(locked, why, by=by, asked=asked)
        _end(locked, status, by, reason)
    return Decided(locked)


def _locked(approval_id: UUID) -> Approval | None:
    rows = Approval.objects.select_for_update(of=("self",), no_key=True)
    found: Approval | None = (
        rows.select_related("account", "message", "action__message", "outbound__account")
        .filter(pk=approval_id)
        .first()
    )
    return found


def _obstacle(approval: Approval, status: ApprovalStatus, by: Actor) -> str:
    """Return why the decision has no effect, or empty; end an approval that is overdue or stale."""
    if not may_decide(approval, by):
        return NOT_PERMITTED
    if approval.status != ApprovalStatus.PENDING:
        by_whom = f" by {approval.decided_by}" if approval.decided_by else ""
        return f"This is already {approval.get_status_display().lower()}{by_whom}"
    if approval.expires_at <= timezone.now():
        _end(approval, ApprovalStatus.EXPIRED, SERVICE)
        return NO_ANSWER
    if status == ApprovalStatus.APPROVED:
        if not _is_as_asked(approval):
            _end(approval, ApprovalStatus.CANCELED, SERVICE)
            return CHANGED
        outbound = approval.outbound
        if outbound is not None and _is_answered(outbound):
            _end(approval, ApprovalStatus.CANCELED, SERVICE)
            return ANSWERED.rstrip(".")
        # It stays pending: if the mailbox is connected again in time, or a day has passed since
        # another automatic reply, it can still be approved.
        why = why_not_used(approval.account) or (why_not_released(outbound) if outbound else "")
        return why.rstrip(".")
    return ""


def may_decide(approval: Approval, by: Actor) -> bool:
    """Say whether the actor may decide: the mailbox's owner, or an operator who may read it.

    Must run in the firm's scope.
    """
    if by.user is None:
        return by.door in ("service", "cli")
    owns = approval.account.owner_id == by.user.pk
    needed = Role.VIEWER if owns else APPROVE_ROLE
    if not by.user.is_active or not access_of(by.user).may(needed, approval.firm_id):
        return False
    return may_read(by.user.pk, approval.account)


def _is_as_asked(approval: Approval) -> bool:
    _lock_asked(approval)
    waits = all(
        one is None or one.status == ActionStatus.APPROVED_PENDING
        for one in (approval.action, approval.outbound)
    )
    return waits and asked_hash(approval.action, approval.outbound) == approval.content_hash


def _is_answered(outbound: OutboundMessage) -> bool:
    """Say whether an answer by hand was stored after the approval of this one was asked for."""
    if outbound.kind != OutboundKind.REPLY or outbound.message is None:
        return False
    return is_answered(outbound.message, from_stored(outbound.to), since=outbound.created_at)


def _lock_asked(approval: Approval) -> None:
    """Read what was asked again and lock it, because it may be canceled at the same moment."""
    for one in (approval.outbound, approval.action):
        if one is not None:
            one.refresh_from_db(from_queryset=type(one).objects.select_for_update(no_key=True))


_EVENTS = {
    ApprovalStatus.APPROVED: EventType.APPROVED,
    ApprovalStatus.REJECTED: EventType.REJECTED,
    ApprovalStatus.EXPIRED: EventType.APPROVAL_EXPIRED,
}


def _end(approval: Approval, status: ApprovalStatus, by: Actor, reason: str = "") -> None:
    before = approval.status
    approval.status, approval.decided_by, approval.decided_via = status, by.name, by.door
    Approval.objects.filter(pk=approval.pk).update(
        status=status, decided_by=by.name, decided_via=by.door, decided_at=Now()
    )
    if status == ApprovalStatus.APPROVED:
        _let_go(approval)
    else:
        _turn_down(approval, NO_ANSWER if status == ApprovalStatus.EXPIRED else "")
    if status in _EVENTS:
        _record(_EVENTS[status], approval)
    audit(
        f"approval.{status}",
        approval,
        by,
        reason,
        before={"status": str(before)},
        after={"status": str(status), "content_hash": approval.content_hash},
    )


def _let_go(approval: Approval) -> None:
    action, outbound = approval.action, approval.outbound
    if outbound is not None:
        release_outbound(outbound)
    if action is None:
        return
    if outbound is not None:
        Action.objects.filter(pk=action.pk).update(
            status=ActionStatus.EXECUTING, job_id=outbound.job_id
        )
    else:
        Action.objects.filter(pk=action.pk).update(status=ActionStatus.QUEUED)
        message: Message = action.message
        enqueue_action(action, message.thread_id)


def _turn_down(approval: Approval, error: str) -> None:
    waiting = Q(status=ActionStatus.APPROVED_PENDING)
    Action.objects.filter(waiting, pk=approval.action_id).update(
        status=ActionStatus.REJECTED, error=error
    )
    OutboundMessage.objects.filter(waiting, pk=approval.outbound_id).update(
        status=OutboundStatus.REJECTED, error=error
    )


def _record(event: EventType, approval: Approval) -> None:
    detail = {"approval_id": str(approval.pk), "asked": approval.subject}
    record_event(event, approval.account, message=approval.message, detail=detail)
