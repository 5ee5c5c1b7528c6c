"""Operations on outbound messages: cancel, send again, mark as sent."""

from __future__ import annotations

from mail.errors import ReasonMissing, WrongState
from mail.models import UNFINISHED, Action, ActionStatus, OutboundMessage, OutboundStatus
from mail.services.approvals.approvals import lock_questions, withdraw
from mail.services.mailboxes.connection import why_not_used
from mail.services.operation import audit, on_locked_row
from mail.services.sending.loop_guard import lock_replies, why_not_released
from mail.services.sending.outbound import release_outbound
from mail.services.sending.send_outcome import NOT_TOLD, complete_send
from tenants.audit import SERVICE, Actor
from tenants.scope import firm_scope

NEVER_APPROVED = "Nobody has approved the message; ask for it anew."
_CANCELABLE = (OutboundStatus.APPROVED_PENDING, OutboundStatus.QUEUED)
_SENDABLE = (OutboundStatus.UNKNOWN, OutboundStatus.FAILED, OutboundStatus.CANCELED)


def cancel_outbound(outbound: OutboundMessage, *, reason: str = "", by: Actor = SERVICE) -> None:
    """Cancel the message and its open approvals.

    A message that waits to be sent again, but may have been sent before, needs a look again
    instead.

    Raises:
        WrongState: it is being sent, or has ended.
    """
    with firm_scope(outbound.firm_id):
        # Locked before the message, as decisions do, because otherwise the two could deadlock.
        questions = lock_questions(outbound)
        _cancel(outbound, reason=reason, by=by)
        for question in questions:
            withdraw(question, by=by, reason=reason)


@on_locked_row
def _cancel(outbound: OutboundMessage, *, reason: str, by: Actor) -> None:
    _require(outbound, _CANCELABLE)
    before = outbound.status
    if outbound.may_be_sent:
        outbound.status, outbound.error = OutboundStatus.UNKNOWN, NOT_TOLD
        outbound.save(update_fields=["status", "error"])
        _audit("outbound.cancel", outbound, by, reason, before)
        return
    outbound.status = OutboundStatus.CANCELED
    outbound.save(update_fields=["status"])
    Action.objects.filter(
        pk=outbound.action_id, status__in=[*UNFINISHED, ActionStatus.APPROVED_PENDING]
    ).update(status=ActionStatus.CANCELED)
    _audit("outbound.cancel", outbound, by, reason, before)


def send_again(outbound: OutboundMessage, *, reason: str, by: Actor = SERVICE) -> None:
    """Send a message that is not known to have been sent.

    Gmail is searched for it again first. If its draft still exists, that draft is sent, so that the
    message cannot go out twice.

    Raises:
        ReasonMissing: no reason is given.
        WrongState: it was sent, waits or is being sent, nobody has approved it, its mailbox is
            disconnected, or it is an automatic reply and others have used up the limit.
    """
    _require_reason(reason)
    with firm_scope(outbound.firm_id):
        lock_replies(outbound.account_id)
        _send_again(outbound, reason=reason, by=by)


@on_locked_row
def _send_again(outbound: OutboundMessage, *, reason: str, by: Actor) -> None:
    obstacle = why_not_sendable(outbound)
    if obstacle:
        raise WrongState(obstacle)
    before = outbound.status
    if outbound.missing_since is not None:
        outbound.gmail_draft_id, outbound.missing_since = "", None
    if not outbound.gmail_draft_id:
        # The message is sent anew, and Gmail keeps its history only for some days.
        outbound.history_id = None
        outbound.in_doubt = outbound.in_doubt or before == OutboundStatus.UNKNOWN
    outbound.save(update_fields=["gmail_draft_id", "missing_since", "history_id", "in_doubt"])
    release_outbound(outbound, at_once=True)
    _audit("outbound.send_again", outbound, by, reason, before)


@on_locked_row
def mark_sent(outbound: OutboundMessage, *, reason: str, by: Actor = SERVICE) -> None:
    """Mark the message as sent, because somebody has seen that it was.

    Raises:
        ReasonMissing: no reason is given.
        WrongState: its state is not unknown.
    """
    _require_reason(reason)
    _require(outbound, (OutboundStatus.UNKNOWN,))
    complete_send(outbound, None)
    _audit("outbound.mark_sent", outbound, by, reason, OutboundStatus.UNKNOWN)


def why_not_sendable(outbound: OutboundMessage) -> str:
    """Return why the message cannot be sent again, empty if it can.

    Must run in the firm's scope, with the replies locked if it is sent then.
    """
    if outbound.status not in _SENDABLE:
        return state_in_words(outbound)
    if not outbound.releases:
        # It was canceled while it waited for an approval, which it still lacks.
        return NEVER_APPROVED
    return why_not_used(outbound.account) or why_not_released(outbound)


def _require(outbound: OutboundMessage, statuses: tuple[OutboundStatus, ...]) -> None:
    if outbound.status not in statuses:
        raise WrongState(state_in_words(outbound))


def state_in_words(outbound: OutboundMessage) -> str:
    """Return the message's state in words."""
    if outbound.status == OutboundStatus.UNKNOWN:
        return "The message needs a look: nobody can tell whether it was sent."
    return f"The message is {outbound.get_status_display().lower()}."


def _require_reason(reason: str) -> None:
    if not reason.strip():
        raise ReasonMissing("Say why.")


def _audit(operation: str, outbound: OutboundMessage, by: Actor, reason: str, before: str) -> None:
    audit(
        operation,
        outbound,
        by,
        reason,
        before={"status": str(before)},
        after={"status": str(outbound.status)},
    )
