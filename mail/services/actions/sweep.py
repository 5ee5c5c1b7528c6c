"""Ends actions whose jobs are over, and wakes snoozed messages that no job will wake."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from jobs.models import JobQueue
from jobs.queries.filters import with_status
from jobs.states import LIVE, Status
from mail.models import (
    UNFINISHED,
    Action,
    Approval,
    ApprovalStatus,
    Connection,
    OutboundMessage,
    OutboundStatus,
)
from mail.services.actions.actions import fail_action
from mail.services.actions.snooze import WAKE_TYPE, enqueue_wake
from mail.services.sending.send_outcome import fail_send
from tenants.scope import all_firms, firm_scope

# The most rows of a kind in one sweep; the next sweep takes the others.
MAX_ROWS = 500
# How late a wake's job may be before the sweep enqueues another.
WAKE_GRACE = timedelta(minutes=2)
# Gmail would soon refuse a wake again that became a dead letter. So the next is tried after as long
# as the message was late by then, and after at most this long.
LONGEST_WAIT = timedelta(hours=1)
QUESTION_GONE = "The mail it was about was deleted before anybody approved it"
_WAITS = Q(status=OutboundStatus.APPROVED_PENDING)
WHY: dict[str | None, str] = {
    Status.CANCELED: "Its job was canceled",
    Status.COMPLETED: "Its job ended without executing it",
    Status.FAILED: "Its job failed",
    Status.DLQ: "Its job is a dead letter",
}


def sweep_actions() -> dict[str, int]:
    """End actions and sends that no job executes, wake overdue snoozes; return how many of each.

    A job that dies with its worker, expires or is canceled cannot update its action. The sweep
    marks such an action failed, so that the job, if a person retries it, can execute the action.
    """
    return {
        "failed": _fail_sends() + _fail_actions(),
        "canceled": _cancel_unasked(),
        "woken": _wake_overdue(),
    }


def _fail_sends() -> int:
    """Fail the outbound messages that no job sends any more, with their actions."""
    unsent = Q(status__in=[OutboundStatus.QUEUED, OutboundStatus.SENDING])
    with all_firms("the sweep of every firm's messages on their way out"):
        abandoned = _abandoned(OutboundMessage.objects.filter(unsent))
    for firm_id, outbound_id, why in abandoned:
        fail_send(firm_id, outbound_id, why, canceled=False)
    return len(abandoned)


def _fail_actions() -> int:
    with all_firms("the sweep of every firm's actions"):
        unfinished = Action.objects.filter(status__in=UNFINISHED)
        # A person decides what became of a message that may have been sent.
        abandoned = _abandoned(unfinished.exclude(outbound__status=OutboundStatus.UNKNOWN))
    for firm_id, action_id, why in abandoned:
        fail_action(firm_id, action_id, why)
    return len(abandoned)


def _cancel_unasked() -> int:
    """Cancel the outbound messages that wait for an approval which was deleted with its mail."""
    with all_firms("the sweep of every firm's messages that wait"):
        asked = Approval.objects.filter(outbound_id=OuterRef("pk"), status=ApprovalStatus.PENDING)
        rows = OutboundMessage.objects.filter(~Exists(asked), _WAITS).order_by("pk")
        found = list(rows.values_list("firm_id", "pk")[:MAX_ROWS])
    for firm_id, outbound_id in found:
        with firm_scope(firm_id):
            waiting = OutboundMessage.objects.filter(_WAITS, pk=outbound_id)
            waiting.update(status=OutboundStatus.CANCELED, error=QUESTION_GONE)
    return len(found)


def _abandoned(rows: QuerySet[Any]) -> list[tuple[int, UUID, str]]:
    """Return the rows whose jobs are over: firm, id, and what became of the job."""
    live = JobQueue.objects.unscoped("the sweep of every firm's actions").filter(
        pk=OuterRef("job_id"), status__in=list(LIVE)
    )
    left = rows.filter(~Exists(live), job_id__isnull=False).order_by("pk")
    found = list(left.values_list("firm_id", "pk", "job_id")[:MAX_ROWS])
    job_ids = [job_id for _, _, job_id in found]
    statuses = dict(JobQueue.objects.filter(pk__in=job_ids).values_list("pk", "status"))
    return [
        (firm_id, pk, WHY.get(statuses.get(job_id), "Its job is gone"))
        for firm_id, pk, job_id in found
    ]


def _wake_overdue() -> int:
    with all_firms("the sweep of every firm's snoozes"):
        overdue = Action.objects.select_related("message").filter(
            wake_at__lt=timezone.now() - WAKE_GRACE,
            account__active=True,
            account__connection=Connection.CONNECTED,
        )
        rows = list(overdue.order_by("wake_at")[:MAX_ROWS])
        died = _deaths(rows) if rows else {}
    woken = 0
    for action in rows:
        if _is_too_early(action.wake_at, died.get(str(action.pk))):
            continue
        label_id = (action.undo_hint or {}).get("snooze_label_id", "")
        with firm_scope(action.firm_id):
            woken += enqueue_wake(action, label_id, timezone.now()).created
    return woken


def _deaths(snoozes: Sequence[Action]) -> dict[str, datetime]:
    """Return when the last job that was to wake each of these messages became a dead letter."""
    ids = [str(action.pk) for action in snoozes]
    wakes = JobQueue.objects.filter(job_type=WAKE_TYPE, payload__action_id__in=ids)
    dead = with_status(wakes, Status.DLQ)
    return dict(dead.order_by("completed_at").values_list("payload__action_id", "completed_at"))


def _is_too_early(wake_at: datetime | None, died_at: datetime | None) -> bool:
    """Say whether it is too early to retry a wake that became a dead letter at `died_at`."""
    if wake_at is None or died_at is None:
        return False
    return timezone.now() < died_at + min(died_at - wake_at, LONGEST_WAIT)
