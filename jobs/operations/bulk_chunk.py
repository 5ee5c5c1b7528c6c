"""One chunk of a bulk run: the operation on some members, in a few statements for all of them.

Rows that another transaction has locked are left for a later chunk: the run waits for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import IntegrityError

from jobs.engine.clock import database_now
from jobs.engine.counters import count
from jobs.engine.insert import dispatch_after_commit
from jobs.engine.requeue import Restart, Restarted, restart, restart_many
from jobs.errors import KeyHeld
from jobs.models import BulkMember, BulkRun, DeadLetterQueue, JobQueue
from jobs.operations.dead_letters import EVENTS, give_up, kept_note
from jobs.operations.jobs import cancel_pending
from jobs.operations.notifications.events import publish
from jobs.operations.operation import restarts_counted
from jobs.states import (
    IN_FLIGHT,
    OPEN_RESOLUTIONS,
    RETRYABLE,
    BulkOperation,
    Resolution,
    Status,
)
from tenants.audit import Actor, Change, record_operations

# Maps the id of a member's target to why the operation was refused, or to "" if it was done.
# A target without an entry is locked by another transaction.
Outcomes = dict[UUID, str]

# The columns that the operations read.
_COLUMNS: dict[type[Any], tuple[str, ...]] = {
    DeadLetterQueue: ("firm_id", "original_job_id", "resolution"),
    JobQueue: (
        *("firm_id", "category", "status", "series", "attempts", "priority"),
        "idempotency_key",
    ),
}

GONE = "it no longer exists"
DECIDED = "it has already been decided"


def do_chunk(run: BulkRun, members: Sequence[BulkMember], actor: Actor) -> Outcomes:
    """Do the run's operation on these members, in the open transaction, and audit each change."""
    return _CHUNKS[BulkOperation(run.operation)](run, members, actor)


def _reprocess(run: BulkRun, members: Sequence[BulkMember], actor: Actor) -> Outcomes:
    letters, outcomes = _open_letters(members)
    jobs, _ = _locked(JobQueue, [letter.original_job_id for letter in letters.values()])
    mine = {letter.original_job_id: letter for letter in letters.values()}
    restarted, refused = _restart(jobs.values())
    outcomes |= {mine[job_id].pk: why for job_id, why in refused.items()}
    decided = [(mine[job_id], one.series) for job_id, one in restarted.items()]
    _close(run, decided, actor)
    return outcomes | {letter.pk: "" for letter, _ in decided}


def _discard(run: BulkRun, members: Sequence[BulkMember], actor: Actor) -> Outcomes:
    letters, outcomes = _open_letters(members)
    jobs, gone = _locked(JobQueue, [letter.original_job_id for letter in letters.values()])
    mine = jobs.keys() | gone.keys()
    letters = {pk: letter for pk, letter in letters.items() if letter.original_job_id in mine}
    _resolve(run, letters.values(), Resolution.DISCARDED, actor)
    give_up(letter.original_job_id for letter in letters.values())
    changes = [
        _change(run, letter, {"resolution": letter.resolution}, {"resolution": "discarded"})
        for letter in letters.values()
    ]
    record_operations(actor, "dead_letter.discard", changes, reason=run.reason)
    return outcomes | dict.fromkeys(letters, "")


def _retry(run: BulkRun, members: Sequence[BulkMember], actor: Actor) -> Outcomes:
    jobs, outcomes = _jobs_in(RETRYABLE, members)
    open_letters = DeadLetterQueue.objects.filter(
        original_job_id__in=jobs, resolution__in=OPEN_RESOLUTIONS
    )
    letters, _ = _locked(DeadLetterQueue, list(open_letters.values_list("pk", flat=True)))
    mine = {letter.original_job_id: letter for letter in letters.values()}
    # Leave out the jobs whose open dead letter another transaction has locked.
    free = [job for job in jobs.values() if job.status != Status.DLQ or job.pk in mine]
    restarted, refused = _restart(free)
    _close(run, [(mine[id_], one.series) for id_, one in restarted.items() if id_ in mine], actor)
    changes = [
        _change(
            run,
            jobs[job_id],
            {name: getattr(jobs[job_id], name) for name in ("status", "series", "attempts")},
            {"status": "pending", "series": one.series, "attempts": 0},
        )
        for job_id, one in restarted.items()
    ]
    record_operations(actor, "job.retry", changes, reason=run.reason)
    return outcomes | refused | dict.fromkeys(restarted, "")


def _cancel(run: BulkRun, members: Sequence[BulkMember], actor: Actor) -> Outcomes:
    jobs, outcomes = _jobs_in({Status.PENDING, *IN_FLIGHT}, members)
    pending = [job.pk for job in jobs.values() if job.status == Status.PENDING]
    running = [job.pk for job in jobs.values() if job.status != Status.PENDING]
    if pending:
        cancel_pending(pending)
    now = database_now()
    asked = JobQueue.objects.filter(pk__in=running, cancel_requested_at__isnull=True)
    asked.update(cancel_requested_at=now, updated_at=now)
    changes = [
        _change(
            run,
            job,
            {"status": job.status},
            {"cancel_requested": True} if job.status in IN_FLIGHT else {"status": "canceled"},
        )
        for job in jobs.values()
    ]
    record_operations(actor, "job.cancel", changes, reason=run.reason)
    return outcomes | dict.fromkeys(jobs, "")


def _set_priority(run: BulkRun, members: Sequence[BulkMember], actor: Actor) -> Outcomes:
    jobs, outcomes = _jobs_in({Status.PENDING}, members)
    rows = JobQueue.objects.filter(pk__in=jobs, status=Status.PENDING)
    rows.update(priority=run.priority, updated_at=database_now())
    changes = [
        _change(run, job, {"priority": job.priority}, {"priority": run.priority})
        for job in jobs.values()
    ]
    record_operations(actor, "job.set_priority", changes, reason=run.reason)
    return outcomes | dict.fromkeys(jobs, "")


_CHUNKS: Mapping[BulkOperation, Callable[[BulkRun, Sequence[BulkMember], Actor], Outcomes]] = {
    BulkOperation.REPROCESS: _reprocess,
    BulkOperation.DISCARD: _discard,
    BulkOperation.RETRY: _retry,
    BulkOperation.CANCEL: _cancel,
    BulkOperation.SET_PRIORITY: _set_priority,
}


def _open_letters(members: Sequence[BulkMember]) -> tuple[dict[UUID, Any], Outcomes]:
    """Lock the members' dead letters; return the open ones, and the others' outcomes."""
    letters, outcomes = _locked(DeadLetterQueue, [member.target_id for member in members])
    for pk, letter in list(letters.items()):
        if letter.resolution not in OPEN_RESOLUTIONS:
            outcomes[pk] = DECIDED
            del letters[pk]
    return letters, outcomes


def _jobs_in(
    statuses: Iterable[Status], members: Sequence[BulkMember]
) -> tuple[dict[UUID, Any], Outcomes]:
    """Lock the members' jobs; return those in one of the statuses, and the others' outcomes."""
    jobs, outcomes = _locked(JobQueue, [member.target_id for member in members])
    allowed = set(statuses)
    for pk, job in list(jobs.items()):
        if job.status not in allowed:
            outcomes[pk] = f"it is {job.status}"
            del jobs[pk]
    return jobs, outcomes


def _locked(model: Any, ids: Sequence[UUID]) -> tuple[dict[UUID, Any], Outcomes]:
    """Lock the rows that nobody else has locked; return them by id, and which are gone."""
    rows = model.objects.filter(pk__in=ids).only(*_COLUMNS[model])
    found = {
        row.pk: row for row in rows.select_for_update(no_key=True, skip_locked=True).order_by("pk")
    }
    missing = [pk for pk in ids if pk not in found]
    there = set(model.objects.filter(pk__in=missing).values_list("pk", flat=True))
    return found, {pk: GONE for pk in missing if pk not in there}


def _restart(jobs: Iterable[JobQueue]) -> tuple[dict[UUID, Restarted], Outcomes]:
    """Restart these locked jobs; return what they are now, and the refusals."""
    refused: Outcomes = {}
    wanted: dict[UUID, JobQueue] = {}
    holders = _key_holders(jobs := list(jobs))
    for job in jobs:
        key = (job.firm_id, job.idempotency_key)
        if job.status not in RETRYABLE:
            refused[job.pk] = f"its job is {job.status}"
        elif job.idempotency_key is None or holders.setdefault(key, job.pk) == job.pk:
            wanted[job.pk] = job
        else:
            refused[job.pk] = str(KeyHeld(holders[key]))
    try:
        restarted = {one.job_id: one for one in restart_many(list(wanted), Restart())}
    except IntegrityError:
        # Meanwhile another transaction enqueued a job with one of the idempotency keys.
        restarted = {}
        for job_id in wanted:
            try:
                restarted[job_id] = restart(job_id, Restart())
            except KeyHeld as error:
                refused[job_id] = str(error)
    count(restarts_counted(wanted[job_id] for job_id in restarted))
    dispatch_after_commit({(one.category, one.firm_id, one.lock_key) for one in restarted.values()})
    return restarted, refused


def _key_holders(jobs: Sequence[JobQueue]) -> dict[tuple[int, str | None], UUID]:
    """Return the live job that holds each job's idempotency key, where one does."""
    keys = {job.idempotency_key for job in jobs if job.idempotency_key is not None}
    if not keys:
        return {}
    live = JobQueue.objects.filter(firm_id__in={job.firm_id for job in jobs}, live_key__in=keys)
    return {
        (firm_id, key): pk for firm_id, key, pk in live.values_list("firm_id", "live_key", "pk")
    }


def _close(run: BulkRun, decided: Sequence[tuple[Any, int]], actor: Actor) -> None:
    """Resolve these dead letters as reprocessed; each comes with the new series of its job."""
    _resolve(run, [letter for letter, _ in decided], Resolution.REPROCESSED, actor)
    changes = [
        _change(
            run,
            letter,
            {"resolution": letter.resolution, "series": series - 1},
            {"resolution": "reprocessed", "series": series},
        )
        for letter, series in decided
    ]
    record_operations(actor, "dead_letter.reprocess", changes, reason=run.reason)


def _resolve(run: BulkRun, letters: Collection[Any], resolution: Resolution, actor: Actor) -> None:
    rows = DeadLetterQueue.objects.filter(pk__in=[letter.pk for letter in letters])
    rows.update(
        resolution=resolution,
        resolution_note=kept_note(run.reason),
        reviewed_by_id=actor.user_id,
        reviewed_at=database_now(),
    )
    publish(EVENTS[resolution], [(letter.firm_id, letter.pk) for letter in letters])


def _change(run: BulkRun, row: Any, before: Mapping[str, Any], after: Mapping[str, Any]) -> Change:
    kind = "dead_letter" if isinstance(row, DeadLetterQueue) else "job"
    return Change(row.firm_id, (kind, row.pk), before, {**after, "bulk_run": str(run.pk)})
