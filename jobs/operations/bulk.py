"""Bulk runs: one operation on many dead letters or jobs, done in chunks by a job.

The members are fixed when a run starts. Each chunk is one transaction that handles the next pending
members, oldest first, and stores what became of them. If a worker dies, no chunk is half done, and
the job's next attempt continues after the last committed chunk. A run can be stopped between two
chunks; with a canary it stops by itself when too many of the first members fail again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import F
from uuid_utils.compat import uuid7

from interfaces.correlation import correlation, current_correlation_id, new_correlation_id
from interfaces.redaction import hide_secrets
from jobs.engine import dialects
from jobs.engine.clock import database_now
from jobs.engine.enqueue import enqueue
from jobs.engine.job_arguments import number_faults
from jobs.engine.transactions import run as execute
from jobs.errors import BulkInvalid, Fault, WrongState
from jobs.models import BulkRun, DeadLetterQueue
from jobs.operations.operation import By, audit, get_for_update, operation, owner_id, require_reason
from jobs.queries.bulk import Selection, Totals, eligible_rows, totals_of
from jobs.states import (
    OF_DEAD_LETTERS,
    RESTARTS,
    BulkOperation,
    BulkState,
    Priority,
)
from tenants.audit import Actor, as_actor
from tenants.models import Firm
from tenants.scope import firm_scope

MOST_PER_SECOND = 10_000.0
MOST_CANARIES = 1_000
CANARY_SIZE = 50
MAX_FAILURE_RATE = 0.2
NEW_ID = {"postgresql": "gen_random_uuid()", "sqlite": "lower(hex(randomblob(16)))"}


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How fast a run goes: members per second, and how many to try first as a canary."""

    rate_per_second: float | None = None
    canary_size: int = 0
    canary_max_failure_rate: float = MAX_FAILURE_RATE


@dataclass(frozen=True, kw_only=True)
class BulkSpec:
    """A bulk run to start. `firm` None means every firm in scope, which must be all of them."""

    operation: BulkOperation
    selection: Selection
    firm: Firm | int | None
    reason: str = ""
    # For set_priority.
    priority: int | None = None
    pace: Pace = Pace()


def preview(spec: BulkSpec) -> Totals:
    """Count the rows that this run would change now, by cause and firm.

    Raises:
        BulkInvalid, TenantMismatch: as `start`; but only `start` refuses a canary of all members.
    """
    _check(spec)
    return totals_of(spec.operation, _rows(spec))


@operation
def start(spec: BulkSpec, *, by: By = None) -> BulkRun:
    """Fix the members of a bulk run and enqueue the job that does it.

    Raises:
        BulkInvalid: the priority, the rate or the canary is refused; also a canary of all members.
        ReasonMissing: a discard without a reason.
        WrongState: the selection has no row in scope on which the operation is possible.
        TenantMismatch: the firm is out of scope; without a firm, not every firm is in scope.
    """
    _check(spec)
    if spec.operation is BulkOperation.DISCARD:
        require_reason(spec.reason)
    owner, actor = owner_id(spec.firm), as_actor(by)
    run = BulkRun(
        id=uuid7(),
        firm_id=owner,
        operation=spec.operation.value,
        selection=spec.selection.summary,
        reason=hide_secrets(spec.reason),
        priority=spec.priority,
        rate_per_second=spec.pace.rate_per_second,
        canary_size=spec.pace.canary_size,
        canary_max_failure_rate=spec.pace.canary_max_failure_rate,
        correlation_id=current_correlation_id() or new_correlation_id(),
        door=actor.door,
        started_by_id=actor.user_id,
        started_by_name=actor.name,
    )
    run.total = _fix_members(run, _rows(spec))
    if not run.total:
        word = spec.operation.replace("_", " ")
        raise WrongState(f"the selection has no row on which {word} is possible")
    if run.canary_size >= run.total:
        # The number of members is known only now. A canary of all of them would spare none.
        message = f"must be less than the {run.total:,} rows of the run"
        raise BulkInvalid([Fault("canary", "out_of_range", message)])
    run.job_id = enqueue(
        "dlq_bulk" if spec.operation in OF_DEAD_LETTERS else "job_bulk",
        {"run_id": run.pk},
        firm=owner,
        priority=Priority.LOW,
        correlation_id=run.correlation_id,
    ).job_id
    run.save(force_insert=True)
    _audit("bulk.start", run, actor, {"selection": run.selection})
    run.refresh_from_db()
    return run


@operation
def stop(run: BulkRun | UUID | str, *, by: By = None, reason: str = "") -> BulkRun:
    """End a bulk run: after this no further member is handled. What was done stays done.

    Raises:
        UnknownJob: no such run in scope.
        WrongState: the run is over.
    """
    row = get_for_update(BulkRun, run)
    if row.state != BulkState.RUNNING:
        raise WrongState(f"bulk run {row.pk} is over: {row.state.replace('_', ' ')}")
    with firm_scope(row.firm_id):
        return end_run(row, BulkState.STOPPED, as_actor(by), reason)


def end_run(run: BulkRun, state: BulkState, actor: Actor, reason: str = "") -> BulkRun:
    """End a locked run, and audit its totals."""
    run.state, run.finished_at = state.value, database_now()
    run.save(update_fields=["state", "finished_at"])
    _audit("bulk.stop" if state is BulkState.STOPPED else "bulk.end", run, actor, {}, reason)
    return run


def _audit(act: str, run: BulkRun, actor: Actor, after: dict[str, Any], reason: str = "") -> None:
    totals = {"state": run.state, "total": run.total, "done": run.done, "refused": run.refused}
    about = {"operation": run.operation, "bulk_run": str(run.pk)}
    with correlation(run.correlation_id):
        audit(act, run, actor, reason or run.reason, after={**about, **totals, **after})


def _rows(spec: BulkSpec) -> Any:
    owner = owner_id(spec.firm)
    rows = eligible_rows(spec.operation, spec.selection)
    return rows if spec.firm is None else rows.filter(firm_id=owner)


def _fix_members(run: BulkRun, rows: Any) -> int:
    """Store the chosen rows as members, in one statement; return how many there are."""
    job = "original_job_id" if rows.model is DeadLetterQueue else "pk"
    found = rows.order_by().annotate(target=F("pk"), job=F(job))
    try:
        chosen, params = found.values_list("firm_id", "target", "job").query.sql_with_params()
    except EmptyResultSet:
        # Django knows without a query that nothing matches, for example when no ids are given.
        return 0
    ids, id_params = dialects.ids_sql([run.pk])
    return execute(
        f"""
        INSERT INTO jobs_bulkmember (id, run_id, firm_id, target_id, job_id, state, note)
        WITH chosen (firm_id, target_id, job_id) AS ({chosen})
        SELECT {NEW_ID[connection.vendor]}, r.id, c.firm_id, c.target_id, c.job_id, 'pending', '' FROM chosen c, {ids}
        """,
        [*params, *id_params],
    )


def _check(spec: BulkSpec) -> None:
    operation, priority, pace = spec.operation, spec.priority, spec.pace
    faults = []
    if operation is BulkOperation.SET_PRIORITY:
        if priority is None:
            faults.append(Fault("priority", "required", "give the priority to set"))
        else:
            faults += number_faults("priority", priority, min(Priority), max(Priority))
    elif priority is not None:
        faults.append(Fault("priority", "not_possible", "is only for set_priority"))
    rate = pace.rate_per_second
    if rate is not None and not 0 < rate <= MOST_PER_SECOND:
        message = f"must be above 0 and at most {MOST_PER_SECOND:,.0f}"
        faults.append(Fault("rate_per_second", "out_of_range", message))
    if pace.canary_size and operation not in RESTARTS:
        message = "is only for operations that run jobs again"
        faults.append(Fault("canary", "not_possible", message))
    if not 0 <= pace.canary_size <= MOST_CANARIES:
        message = f"must be from 0 to {MOST_CANARIES:,}"
        faults.append(Fault("canary.size", "out_of_range", message))
    if not 0 <= pace.canary_max_failure_rate < 1:
        message = "must be at least 0 and below 1"
        faults.append(Fault("canary.max_failure_rate", "out_of_range", message))
    if faults:
        raise BulkInvalid(faults)
