"""An operator's three decisions about a dead letter: reprocess, discard, escalate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import transaction

from jobs import registry
from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.lookup import in_sight
from jobs.engine.masks import mask_faults, mask_secrets, spelled
from jobs.engine.resolve import resolve
from jobs.engine.restart import Restart, restart
from jobs.engine.retry import set_off
from jobs.engine.transactions import in_transaction, run
from jobs.errors import PayloadInvalid, ReasonMissing
from jobs.models import DeadLetterQueue, JobQueue
from jobs.payload_validator import encode_payload, number_faults, parse_payload
from jobs.states import Priority, Resolution
from tenants.audit import SERVICE, Actor, record_operation

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


def reprocess(
    dead_letter_id: UUID,
    *,
    by: Actor = SERVICE,
    payload: Mapping[str, Any] | None = None,
    priority: int | None = None,
    note: str = "",
) -> UUID:
    """Send the dead letter's job round again and return its id.

    Raises:
        UnknownJob: no such dead letter in sight.
        WrongState: somebody decided before.
        KeyHeld: a live job holds the same idempotency key.
        PayloadInvalid: the edited payload or the priority is refused.
    """
    return in_transaction(
        lambda: _reprocess(dead_letter_id, by, payload, priority, note), savepoint=True
    )


def _reprocess(
    dead_letter_id: UUID,
    by: Actor,
    payload: Mapping[str, Any] | None,
    priority: int | None,
    note: str,
) -> UUID:
    letter = in_sight(DeadLetterQueue, dead_letter_id)
    job = in_sight(JobQueue, letter.original_job_id)
    change = _change(job, payload, priority)
    resolve(letter.pk, Resolution.REPROCESSED, by, note)
    restarted = restart(job.job_id, change)
    before, after = _difference(job, change)
    record_operation(
        by,
        "dead_letter.reprocess",
        firm_id=letter.firm_id,
        target=("dead_letter", letter.pk),
        reason=note,
        before={"resolution": letter.resolution, "series": job.series, **before},
        after={"resolution": "reprocessed", "series": restarted.series, **after},
    )
    transaction.on_commit(lambda: set_off(restarted), robust=True)
    return job.job_id


def _change(job: JobQueue, payload: Mapping[str, Any] | None, priority: int | None) -> Restart:
    if priority is not None and (
        faults := number_faults("priority", priority, min(Priority), max(Priority))
    ):
        raise PayloadInvalid(job.job_type, faults)
    if payload is None:
        return Restart(priority=priority)
    declared = registry.get(job.job_type)
    text = encode_payload(declared, payload)
    if faults := mask_faults(payload):
        raise PayloadInvalid(job.job_type, faults)
    parse_payload(declared, text, job.firm_id)
    return Restart(payload=text, payload_version=str(payload["version"]), priority=priority)


def _difference(job: JobQueue, change: Restart) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what was changed on the way, as it was and as it is, without secrets."""
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    if change.priority not in (None, job.priority):
        before["priority"], after["priority"] = job.priority, change.priority
    if change.payload is not None:
        new = json.loads(change.payload)
        before["payload"], after["payload"] = map(mask_secrets, _changed_fields(job.payload, new))
    return before, after


def _changed_fields(old: object, new: dict[str, Any]) -> tuple[object, dict[str, Any]]:
    """Return the payload's top-level fields that differ; all of it, where it was no object."""
    if not isinstance(old, dict):
        return old, new
    fields = sorted(name for name in old.keys() | new.keys() if _differs(name, old, new))
    return (
        {name: old[name] for name in fields if name in old},
        {name: new[name] for name in fields if name in new},
    )


def _differs(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return (name in old) != (name in new) or spelled(old.get(name)) != spelled(new.get(name))


def discard(dead_letter_id: UUID, reason: str, *, by: Actor = SERVICE) -> None:
    """Give the job up for good: it becomes failed.

    Raises:
        ReasonMissing: no reason given.
        UnknownJob: no such dead letter in sight.
        WrongState: somebody decided before.
    """
    if not reason.strip():
        raise ReasonMissing
    in_transaction(lambda: _discard(dead_letter_id, reason, by), savepoint=True)


def _discard(dead_letter_id: UUID, reason: str, by: Actor) -> None:
    letter = in_sight(DeadLetterQueue, dead_letter_id)
    resolve(letter.pk, Resolution.DISCARDED, by, reason)
    dialect = dialects.current()
    run(
        f"UPDATE jobs_jobqueue SET status = 'failed', updated_at = {dialect.now_sql()}"
        " WHERE job_id = %s AND status = 'dlq'",
        [dialect.value(Column.UUID, letter.original_job_id)],
    )
    _record(letter, "dead_letter.discard", by, reason, {"resolution": "discarded"})


def escalate(
    dead_letter_id: UUID,
    reason: str,
    *,
    to: AbstractBaseUser | None = None,
    by: Actor = SERVICE,
) -> int:
    """Mark the dead letter for somebody to look at and return its firm's id; it stays open.

    The caller sends the notice: `jobs.operations.jobs.escalate` does both.

    Raises:
        ReasonMissing: no reason given.
        UnknownJob: no such dead letter in sight.
        WrongState: somebody decided or escalated before.
    """
    if not reason.strip():
        raise ReasonMissing
    return in_transaction(lambda: _escalate(dead_letter_id, reason, to, by), savepoint=True)


def _escalate(dead_letter_id: UUID, reason: str, to: AbstractBaseUser | None, by: Actor) -> int:
    letter = in_sight(DeadLetterQueue, dead_letter_id)
    resolve(letter.pk, Resolution.ESCALATED, by, reason, from_resolutions=("",))
    assignee = None if to is None else int(to.pk)
    run(
        "UPDATE jobs_deadletterqueue SET assigned_to_id = %s WHERE id = %s",
        [assignee, dialects.current().value(Column.UUID, letter.pk)],
    )
    after = {"resolution": "escalated", "assigned_to": assignee}
    _record(letter, "dead_letter.escalate", by, reason, after)
    return int(letter.firm_id)


def _record(
    letter: DeadLetterQueue, act: str, by: Actor, reason: str, after: dict[str, Any]
) -> None:
    record_operation(
        by,
        act,
        firm_id=letter.firm_id,
        target=("dead_letter", letter.pk),
        reason=reason,
        before={"resolution": letter.resolution},
        after=after,
    )
