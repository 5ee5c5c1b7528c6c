"""Operations on dead letters: reprocess, discard, escalate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import Case, Q, TextField, Value, When
from django.db.models.functions import Concat

from interfaces.redaction import hide_secrets
from jobs.engine import dialects
from jobs.engine.clock import database_now
from jobs.engine.counters import Counted, count
from jobs.engine.enqueue import enqueue
from jobs.engine.insert import dispatch_after_commit
from jobs.engine.job_arguments import number_faults
from jobs.engine.job_wait import read_job
from jobs.engine.requeue import Restart, Restarted, restart
from jobs.engine.transactions import fetch
from jobs.errors import PayloadInvalid, WrongState
from jobs.models import DeadLetterQueue, JobQueue
from jobs.operations.notifications.events import publish
from jobs.operations.operation import (
    By,
    audit,
    get_for_update,
    get_row,
    operation,
    require_reason,
    restarts_counted,
)
from jobs.operations.payloads import edited_columns, payload_difference
from jobs.states import OPEN_RESOLUTIONS, NotificationEvent, Priority, Resolution
from tenants.audit import as_actor
from tenants.models import Firm

# The event that endpoints are notified of, by the resolution.
EVENTS = {
    Resolution.REPROCESSED: NotificationEvent.REPROCESSED,
    Resolution.DISCARDED: NotificationEvent.DISCARDED,
    Resolution.ESCALATED: NotificationEvent.ESCALATED,
}


@operation
def reprocess(
    dead_letter: DeadLetterQueue | UUID | str,
    *,
    by: By = None,
    payload: Mapping[str, Any] | None = None,
    priority: int | None = None,
    reason: str = "",
    note: str = "",
) -> JobQueue:
    """Put the dead letter's job back to pending, with an edited payload when one is given.

    `note` is the older name of `reason`. Returns the job after the operation.

    Raises:
        UnknownJob: no such dead letter in scope.
        WrongState: it is resolved already (KeyHeld: a live job holds the job's idempotency key).
        PayloadInvalid: the edited payload or the priority is refused.
    """
    reason = reason or note
    letter = _get_for_update(dead_letter)
    job = get_for_update(JobQueue, letter.original_job_id)
    change = checked_restart(job, payload, priority)
    _resolve(letter, Resolution.REPROCESSED, by, reason)
    requeued = requeue(job, change)
    before, after = difference(job, change)
    audit(
        "dead_letter.reprocess",
        letter,
        by,
        reason,
        before={"resolution": letter.resolution, "series": job.series, **before},
        after={"resolution": "reprocessed", "series": requeued.series, **after},
    )
    return read_job(job.pk)


@operation
def discard(dead_letter: DeadLetterQueue | UUID | str, reason: str, *, by: By = None) -> None:
    """Give the dead letter's job up for good: it becomes failed.

    Raises:
        ReasonMissing: no reason given.
        UnknownJob: no such dead letter in scope.
        WrongState: it is resolved already.
    """
    require_reason(reason)
    letter = _get_for_update(dead_letter)
    _resolve(letter, Resolution.DISCARDED, by, reason)
    give_up([letter.original_job_id])
    before, after = {"resolution": letter.resolution}, {"resolution": "discarded"}
    audit("dead_letter.discard", letter, by, reason, before=before, after=after)


@operation
def escalate(
    dead_letter: DeadLetterQueue | UUID | str,
    reason: str,
    *,
    to: AbstractBaseUser | None = None,
    by: By = None,
) -> None:
    """Ask somebody by e-mail to review a dead letter (`escalation`); it stays open.

    Raises:
        ReasonMissing: no reason given.
        UnknownJob: no such dead letter in scope.
        WrongState: it is resolved or escalated already, or its firm is gone.
    """
    require_reason(reason)
    letter = get_for_update(DeadLetterQueue, dead_letter)
    assignee = None if to is None else to.pk
    _resolve(
        letter,
        Resolution.ESCALATED,
        by,
        reason,
        obstacle=why_not_escalated,
        assigned_to_id=assignee,
    )
    # A project's user may have a UUID as its key; the audit log stores JSON, so that becomes text.
    noted = assignee if assignee is None or isinstance(assignee, int) else str(assignee)
    after = {"resolution": "escalated", "assigned_to": noted}
    before = {"resolution": letter.resolution}
    audit("dead_letter.escalate", letter, by, reason, before=before, after=after)
    enqueue("escalation_notice", {"dead_letter_id": letter.pk}, firm=letter.firm_id)


def _get_for_update(dead_letter: DeadLetterQueue | UUID | str) -> DeadLetterQueue:
    """Return the dead letter, locked after its job: in another order it and a retry would deadlock.

    Raises:
        UnknownJob: no such dead letter in scope.
    """
    letter = get_row(DeadLetterQueue, dead_letter)
    jobs = JobQueue.objects.unscoped("of a dead letter in scope").select_for_update(no_key=True)
    jobs.filter(firm_id=letter.firm_id, pk=letter.original_job_id).first()
    return get_for_update(DeadLetterQueue, letter)


def why_not_decided(letter: DeadLetterQueue) -> str:
    """Say what was decided about a dead letter already, and by whom; "" while it is open.

    The text continues a sentence that begins with the dead letter: "was discarded already, by ada".
    """
    if letter.resolution in OPEN_RESOLUTIONS:
        return ""
    who = f", by {letter.reviewed_by.get_username()}" if letter.reviewed_by else ""
    return f"was {letter.resolution} already{who}"


def why_not_escalated(letter: DeadLetterQueue) -> str:
    """Say why a dead letter cannot be escalated, in words as of `why_not_decided`; "" if it can.

    It is escalated only once. If its firm was deleted, there is nobody to ask, and no firm in which
    to enqueue the notice.
    """
    if letter.resolution == Resolution.ESCALATED:
        return f"was escalated already, to {asked_about(letter)}: reprocess or discard it"
    if decided := why_not_decided(letter):
        return decided
    if not Firm.objects.filter(pk=letter.firm_id).exists():
        return "belongs to a firm that no longer exists, so nobody can be asked: discard it"
    return ""


def asked_about(letter: DeadLetterQueue) -> str:
    """Return whom an escalated dead letter was escalated to, in words."""
    return letter.assigned_to.get_username() if letter.assigned_to else "the firm's admins"


def close_as_reprocessed(job: JobQueue, series: int, by: By, note: str) -> None:
    """Close the open dead letter, if any, of a job that was requeued as `series`, and audit that.

    Must run in an operation that has locked the job's row.
    """
    letters = DeadLetterQueue.objects.unscoped("of a job in scope").select_for_update(no_key=True)
    for letter in letters.filter(
        firm_id=job.firm_id, original_job_id=job.pk, resolution__in=OPEN_RESOLUTIONS
    ):
        _resolve(letter, Resolution.REPROCESSED, by, note)
        before = {"resolution": letter.resolution, "series": series - 1}
        after = {"resolution": "reprocessed", "series": series}
        audit("dead_letter.reprocess", letter, by, note, before=before, after=after)


def requeue(job: JobQueue, change: Restart) -> Restarted:
    """Put a locked job back to pending, and dispatch it after the commit.

    Raises:
        WrongState: the job is not dead-lettered, failed or canceled.
        KeyHeld: a live job holds the same idempotency key.
    """
    requeued = restart(job.pk, change)
    count(restarts_counted([job]))
    dispatch_after_commit({(requeued.category, requeued.firm_id, requeued.lock_key)})
    return requeued


def give_up(job_ids: Iterable[UUID]) -> None:
    """Make the dead-lettered ones of these jobs failed, and count them as discarded."""
    ids, params = dialects.ids_sql(job_ids)
    discarded = fetch(
        f"UPDATE jobs_jobqueue SET status = 'failed', updated_at = {dialects.current().now_sql()}"
        f" WHERE job_id IN (SELECT r.id FROM {ids}) AND status = 'dlq'"
        " RETURNING firm_id, category",
        params,
    )
    count(Counted(firm_id, category, "discarded") for firm_id, category in discarded)


def kept_note(note: str) -> Case:
    """Return the note of a resolution, without secrets; an escalation's own note stays before it."""
    note = hide_secrets(note)
    escalated = Q(resolution=Resolution.ESCALATED) & ~Q(resolution_note="")
    both = Concat("resolution_note", Value(f"\n{note}" if note else ""), output_field=TextField())
    return Case(When(escalated, then=both), default=Value(note), output_field=TextField())


def _resolve(
    letter: DeadLetterQueue,
    resolution: Resolution,
    by: By,
    note: str,
    *,
    obstacle: Callable[[DeadLetterQueue], str] = why_not_decided,
    **columns: Any,
) -> None:
    """Store a locked dead letter's resolution and `columns`, and notify the subscribed endpoints.

    The object `letter` keeps its old values.
    """
    if why_not := obstacle(letter):
        raise WrongState(f"dead letter {letter.pk} {why_not}")
    rows = DeadLetterQueue.objects.unscoped("the dead letter is locked")
    rows.filter(firm_id=letter.firm_id, pk=letter.pk).update(
        resolution=resolution,
        resolution_note=kept_note(note),
        reviewed_by_id=as_actor(by).user_id,
        reviewed_at=database_now(),
        **columns,
    )
    publish(EVENTS[resolution], [(letter.firm_id, letter.pk)])


def checked_restart(
    job: JobQueue, payload: Mapping[str, Any] | None, priority: int | None = None
) -> Restart:
    """Return what to change in the job; its keys follow the payload.

    Raises:
        PayloadInvalid: the payload or the priority is refused, or a kept idempotency key would change.
    """
    if priority is not None and (
        faults := number_faults("priority", priority, min(Priority), max(Priority))
    ):
        raise PayloadInvalid(job.job_type, faults)
    if payload is None:
        return Restart(priority=priority)
    text, columns = edited_columns(job, payload)
    del columns["payload"]
    version = columns.pop("payload_version")
    return Restart(payload=text, payload_version=version, priority=priority, derived=columns)


def difference(job: JobQueue, change: Restart) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the edit changed, before and after, without secrets."""
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    if change.priority not in (None, job.priority):
        before["priority"], after["priority"] = job.priority, change.priority
    if change.payload is not None:
        before["payload"], after["payload"] = payload_difference(job.payload, change.payload)
    before |= {name: getattr(job, name) for name in change.derived}
    return before, {**after, **change.derived}
