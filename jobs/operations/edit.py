"""The operation that edits a waiting job: its priority, its time, its payload."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from jobs.engine.clock import database_now
from jobs.engine.insert import dispatch_after_commit
from jobs.engine.job_arguments import moment_faults, number_faults
from jobs.engine.job_wait import read_job
from jobs.engine.redaction import canonical_json
from jobs.engine.requeue import requeue_pending
from jobs.errors import EditInvalid, Fault, WrongState
from jobs.models import JobQueue
from jobs.operations.operation import By, JobGiven, audit, get_for_update, operation
from jobs.operations.payloads import edited_columns, payload_difference
from jobs.states import Priority, Status


@operation
def edit(
    job: JobGiven,
    *,
    priority: int | None = None,
    scheduled_at: datetime | None = None,
    run_now: bool = False,
    payload: Mapping[str, Any] | None = None,
    by: By = None,
    reason: str = "",
) -> JobQueue:
    """Change a pending job before a worker claims it; None leaves a value as it is.

    `payload` is the whole edited payload; envelope fields that it leaves out are filled in. A lock
    or limit key that the type derives from the payload follows it. A job with another time or key
    gives up its lock slot and is admitted again. Returns the job after the operation.

    Raises:
        UnknownJob: no such job in scope.
        WrongState: the job is not pending: a worker claimed it, or it is over.
        EditInvalid: the priority or the time is refused, or nothing is given.
        PayloadInvalid: the payload is refused, or would change the idempotency key.
    """
    row = get_for_update(JobQueue, job)
    if row.status != Status.PENDING:
        raise WrongState(f"job {row.pk} cannot be edited: it is {row.status}, not pending")
    _check(row, priority, scheduled_at, run_now=run_now, has_payload=payload is not None)
    columns: dict[str, Any] = {}
    if priority is not None:
        columns["priority"] = priority
    if run_now:
        columns["scheduled_at"] = database_now()
    elif scheduled_at is not None:
        # PostgreSQL knows no offsets of 16 hours or more, which Python allows.
        columns["scheduled_at"] = scheduled_at.astimezone(UTC)
    text = ""
    if payload is not None:
        text, of_payload = edited_columns(row, payload)
        columns |= of_payload
    changed = {name: value for name, value in columns.items() if _differs(row, name, value)}
    if changed:
        _store(row, changed)
        before, after = _difference(row, changed, text)
        audit("job.edit", row, by, reason, before=before, after=after)
    return read_job(row.pk)


def _differs(job: JobQueue, name: str, value: Any) -> bool:
    now = getattr(job, name)
    # Payloads are compared as JSON, because in Python True == 1.
    return canonical_json(value) != canonical_json(now) if name == "payload" else value != now


def _check(
    job: JobQueue,
    priority: int | None,
    scheduled_at: datetime | None,
    *,
    run_now: bool,
    has_payload: bool,
) -> None:
    faults = []
    if priority is None and scheduled_at is None and not run_now and not has_payload:
        faults.append(Fault("", "required", "give a priority, a time or a payload"))
    if priority is not None:
        faults += number_faults("priority", priority, min(Priority), max(Priority))
    if scheduled_at is not None:
        if run_now:
            faults.append(Fault("run_now", "conflict", "give either a time or run_now"))
        if not_a_time := moment_faults("scheduled_at", scheduled_at):
            faults += not_a_time
        elif job.expires_at is not None and scheduled_at >= job.expires_at:
            message = f"the job expires before this time, at {job.expires_at.isoformat()}"
            faults.append(Fault("scheduled_at", "after_expiry", message))
    if faults:
        raise EditInvalid(faults)


def _store(job: JobQueue, changed: Mapping[str, Any]) -> None:
    """Write the columns, and requeue the job if its time or one of its keys changed."""
    rows = JobQueue.objects.unscoped("the job is locked")
    mine = rows.filter(firm_id=job.firm_id, pk=job.pk, status=Status.PENDING)
    mine.update(**changed, updated_at=database_now())
    if changed.keys() - {"priority", "payload", "payload_version"}:
        requeue_pending(job.pk)
    keys = {job.lock_key, changed.get("lock_key", job.lock_key)}
    dispatch_after_commit({(job.category, job.firm_id, key) for key in keys})


def _difference(
    job: JobQueue, changed: Mapping[str, Any], text: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the edit changed, before and after, without secrets."""
    before = {name: getattr(job, name) for name in changed}
    after = dict(changed)
    if "scheduled_at" in changed:
        for values in (before, after):
            values["scheduled_at"] = values["scheduled_at"].isoformat()
    if "payload" in changed:
        before["payload"], after["payload"] = payload_difference(job.payload, text)
    return before, after
